import type { Browser, Page } from 'playwright-core'
import type { Test } from 'tap'
import { inaccessible } from './browser.js'
import { startPage, Visit } from './page-visit.js'

/** Where a state of the page is reached. */
export interface Place extends Awaited<ReturnType<typeof startPage>> {
  readonly visit: Visit
  readonly page: Page
}

/** States of the page by name, each with the steps that lead to it. */
export type States = Record<string, (place: Place) => Promise<unknown>>

const variants = [
  { name: 'light', width: 1280, height: 900, colorScheme: 'light' },
  { name: 'dark', width: 1280, height: 900, colorScheme: 'dark' },
  { name: 'phone', width: 390, height: 844, colorScheme: 'light' },
  { name: 'phone-dark', width: 390, height: 844, colorScheme: 'dark' },
  // A window of 1280 x 720 pixels at a zoom of 200 %.
  { name: 'zoom', width: 640, height: 360, colorScheme: 'light' }
] as const

// Functions that run in the browser.
const inBrowser = `{
  const shown = (element) => element.checkVisibility({ visibilityProperty: true })
  // The label of a radio button draws the button.
  const drawn = (control) => control.type === 'radio' ? control.closest('label') : control
  const modal = document.querySelector('dialog[open]')
  globalThis.controls = () => [...(modal ?? document).querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, [tabindex="0"]')].filter((control) => shown(drawn(control)))
  globalThis.named = (control) => control.id || control.name || control.textContent.trim()
  globalThis.faults = (control) => {
    const element = drawn(control)
    control.focus()
    element.scrollIntoView({ block: 'nearest' })
    // A link in a text can continue on the next line.
    const [{ left, right, top, bottom }] = element.getClientRects()
    const hit = document.elementFromPoint((left + right) / 2, (Math.max(top, 0) + Math.min(bottom, innerHeight)) / 2)
    const style = getComputedStyle(element)
    return [
      document.activeElement !== control && 'takes no focus',
      (left < 0 || right > innerWidth) && 'is cut by the window: ' + left + ' to ' + right,
      !element.contains(hit) && 'is covered by ' + hit?.outerHTML.slice(0, 60),
      /^(BUTTON|A|LABEL)$/.test(element.tagName) && style.display !== 'inline' && (element.scrollWidth > element.clientWidth + 2 || element.scrollHeight > element.clientHeight + 2) && 'does not fit its text',
      parseFloat(style.fontSize) < 12 && 'is too small to read: ' + style.fontSize
    ].filter(Boolean).map((fault) => named(control) + ' ' + fault)
  }
}`

/**
 * Checks each state in both colour schemes, on a desktop, on a phone and at a zoom of 200 %, and takes screenshots: accessible, nothing
 * wider than the window, and every control and all text of the chart usable.
 */
export async function checkStates (t: Test, browser: Browser, states: States, environment: Record<string, string> = {}): Promise<void> {
  const started = await startPage(t, environment)
  for (const [state, reach] of Object.entries(states)) {
    await t.test(state, async (t) => {
      const visit = await Visit.begin(browser, started.address)
      const { page } = visit
      await reach({ ...started, visit, page })
      for (const { name, width, height, colorScheme } of variants) {
        await page.setViewportSize({ width, height })
        await page.emulateMedia({ colorScheme })
        t.same(await inaccessible(page), [], name)
        t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), `${name}: nothing is wider than the window`)
        await visit.screenshot(`${name}-${state.replaceAll(/\W+/g, '-')}`)
      }
      await checkControls(t, page)
      await page.context().close()
      for (const key of ['per-minute', 'tokens.tokens-per-minute', 'streams.in-flight']) await started.app.changePreference(`rate-limit.${key}`, null)
      // All windows end, and all wrong passwords are forgotten.
      await started.pass(1200)
    })
  }
}

async function checkControls (t: Test, page: Page): Promise<void> {
  await page.evaluate(inBrowser)
  const names = await page.evaluate<string[]>('controls().map(named)')
  t.same(await page.evaluate('controls().flatMap(faults)'), [], names.join(', '))
  t.same(await page.evaluate('[...document.querySelectorAll("#timeline text")].filter((label) => parseFloat(getComputedStyle(label).fontSize) * label.getScreenCTM().a < 11).map(named)'), [], 'the chart can be read')
  await page.evaluate('{ globalThis.reached = new Set(); document.activeElement.blur(); document.addEventListener("focusin", ({ target }) => reached.add(target)) }')
  // The Tab key reaches one radio button of a group, and the arrow keys reach the others.
  for (let press = 0; press < names.length + 5; press++) await page.keyboard.press('Tab')
  t.same(await page.evaluate('controls().filter((control) => !reached.has(control) && !(control.type === "radio" && !control.checked)).map(named)'), [], 'all controls are reached with the keyboard')
}
