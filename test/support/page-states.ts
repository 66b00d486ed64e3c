import type { ServerResponse } from 'node:http'
import axe from 'axe-core'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { beginStream, OpenAiServer, streamPart } from './openai-server.js'
import { startPage, type Visit } from './page-visit.js'
import { quotaNames } from '../../examples/service/quotas.js'

/** Where a state of the page is reached. */
export interface Place extends Awaited<ReturnType<typeof startPage>> {
  readonly visit: Visit
  readonly page: Page
  /** Closes the connections of the model's server. */
  stopModel (): void
}

// States of the page by name, each with the steps that lead to it.
type States = Record<string, (place: Place) => Promise<unknown>>

// The rules of accessibility depend on the colour scheme or on the width, so it is enough to check each once.
const variants = [
  { name: 'light', width: 1280, height: 900, colorScheme: 'light', accessible: true },
  { name: 'dark', width: 1280, height: 900, colorScheme: 'dark', accessible: false },
  { name: 'phone', width: 390, height: 844, colorScheme: 'light', accessible: false },
  { name: 'phone-dark', width: 390, height: 844, colorScheme: 'dark', accessible: true },
  // A window of 1280 x 720 pixels at a zoom of 200 %.
  { name: 'zoom', width: 640, height: 360, colorScheme: 'light', accessible: false }
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

/** Returns the steps as one. */
export function inTurn (...steps: ((place: Place) => Promise<unknown>)[]) {
  return async (place: Place): Promise<void> => { for (const step of steps) await step(place) }
}

/** Uses up the limit with three requests. */
export async function reachLimit ({ visit, pass }: Place): Promise<void> {
  for (const seconds of [9, 14, 6]) {
    await visit.run('Analyze')
    await pass(seconds, visit)
  }
  await visit.reads('#limit-message', 'Limit reached')
}

/** Fills the store with as many callers as it tracks, so that all others share the overflow counter. */
export async function reachCap ({ app: { quotaStore } }: Place): Promise<void> {
  for (let caller = 0; caller < 10_000; caller++) await quotaStore.acquire(`caller ${caller}`, 1)
}

/**
 * Checks each state in both colour schemes, on a desktop, on a phone and at a zoom of 200 %, and takes screenshots: accessible, nothing
 * wider than the window, and every control and all text of the chart usable.
 *
 * @param withModelServer The states with a model's server that sends the first sentence of a stream and no more, and answers no other request.
 */
export async function checkStates (t: Test, states: States, withModelServer: States = {}): Promise<void> {
  let latest: ServerResponse | undefined
  const server = await OpenAiServer.start(t, ({ stream }, response) => {
    latest = response
    if (stream) {
      beginStream(response)
      streamPart(response, '{"sentences":[{"text":"Invoices are late.","sentiment":0,"entities":[]}')
    } else {
      response.destroy()
    }
  })

  for (const [table, environment] of [[states, {}], [withModelServer, { MODEL_URL: server.url, MODEL_NAME: 'small-model' }]] as const) {
    const started = await startPage(t, environment)
    for (const [state, reach] of Object.entries(table)) {
      await t.test(state, async (t) => {
        const visit = await started.begin()
        const { page } = visit
        t.teardown(async () => {
          await page.context().close()
          for (const key of Object.keys(quotaNames)) await started.app.changePreference(key, null)
          // All windows end, and all wrong passwords are forgotten.
          await started.pass(1200)
        })
        await reach({ ...started, visit, page, stopModel () { latest?.destroy() } })
        for (const { name, width, height, colorScheme, accessible } of variants) {
          await page.setViewportSize({ width, height })
          await page.emulateMedia({ colorScheme })
          if (accessible) t.same(await inaccessible(page), [], name)
          t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), `${name}: nothing is wider than the window`)
          await visit.screenshot(`${name}-${state.replaceAll(/\W+/g, '-')}`)
        }
        await checkControls(t, page, state === 'provider error' ? 0 : 2)
      })
    }
  }
}

/** Returns the violations of those WCAG rules that a program can check. */
async function inaccessible (page: Page): Promise<string[]> {
  if (!await page.evaluate('"axe" in globalThis')) await page.evaluate(axe.source)
  const violations = await page.evaluate<{ id: string, nodes: { html: string, failureSummary?: string }[] }[]>(
    'axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }).then(({ violations }) => violations)')
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary ?? ''}`))
}

async function checkControls (t: Test, page: Page, atLeast: number): Promise<void> {
  await page.evaluate(inBrowser)
  const names = await page.evaluate<string[]>('controls().map(named)')
  t.ok(names.length >= atLeast, names.join(', '))
  t.same(await page.evaluate('controls().flatMap(faults)'), [], 'all controls can be used')
  t.same(await page.evaluate('[...document.querySelectorAll("#timeline text")].filter((label) => parseFloat(getComputedStyle(label).fontSize) * label.getScreenCTM().a < 11).map(named)'), [], 'the chart can be read')
  await page.evaluate('{ globalThis.reached = new Set(); document.activeElement.blur(); document.addEventListener("focusin", ({ target }) => reached.add(target)) }')
  // The Tab key reaches one radio button of a group, and the arrow keys reach the others.
  for (let press = 0; press < names.length + 5; press++) await page.keyboard.press('Tab')
  t.same(await page.evaluate('controls().filter((control) => !reached.has(control) && !(control.type === "radio" && !control.checked)).map(named)'), [], 'all controls are reached with the keyboard')
}
