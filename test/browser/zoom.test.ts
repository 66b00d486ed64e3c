// The page at a zoom of 200 %: a window of 1280 x 720 pixels then has 640 x 360 CSS pixels. Nothing is wider than the window, every
// control can be reached by keyboard and pointer, and all text is readable.
import { type Browser, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { screenshots, startBrowser } from '../support/browser.js'
import { startService } from '../support/example-service.js'

const width = 640

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

async function works (t: Test, page: Page, state: string): Promise<void> {
  t.equal(await page.evaluate('innerWidth'), width)
  t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), `${state}: nothing is wider than the window`)
  await page.evaluate(inBrowser)
  const names = await page.evaluate<string[]>('controls().map(named)')
  t.ok(names.length > 1, `${state}: ${names.join(', ')}`)
  t.same(await page.evaluate('controls().flatMap(faults)'), [], state)
  t.same(await page.evaluate('[...document.querySelectorAll("#timeline text")].filter((label) => parseFloat(getComputedStyle(label).fontSize) * label.getScreenCTM().a < 11).map(named)'), [], `${state}: the chart can be read`)
  await page.evaluate('{ globalThis.reached = new Set(); document.activeElement.blur(); document.addEventListener("focusin", ({ target }) => reached.add(target)) }')
  // The Tab key reaches one radio button of a group, and the arrow keys reach the others.
  for (let press = 0; press < names.length + 5; press++) await page.keyboard.press('Tab')
  t.same(await page.evaluate('controls().filter((control) => !reached.has(control) && !(control.type === "radio" && !control.checked)).map(named)'), [], `${state}: all controls are reached with the keyboard`)
  await page.screenshot({ path: `${screenshots}/zoom-${state.replaceAll(' ', '-')}.png`, fullPage: true })
}

async function open (browser: Browser, address: string): Promise<Page> {
  const context = await browser.newContext({ viewport: { width, height: 360 }, deviceScaleFactor: 2, reducedMotion: 'reduce' })
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  await page.goto(address)
  await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor()
  return page
}

t.test('each state of the page works at a zoom of 200 %', async (t) => {
  const browser = await startBrowser()
  t.teardown(() => browser.close())
  const { address } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '4' }, () => 0)
  const page = await open(browser, address)
  await works(t, page, 'signed out')
  await page.getByRole('link', { name: 'Sign in with OpenID' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await works(t, page, 'provider')

  await page.goto(address)
  await page.getByLabel('User name').fill('admin')
  await page.getByLabel('Password').fill('looking-glass')
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.locator('#who').filter({ hasText: 'Signed in as' }).waitFor()
  for (const operation of ['Analyze', 'Justify a term', 'Score a node', 'Stream']) {
    await page.getByText(operation, { exact: true }).click()
    await page.locator('#run-button').click()
    await page.locator('#progress').filter({ hasText: 'Done.' }).waitFor()
    if (operation !== 'Stream') await works(t, page, operation.toLowerCase())
  }
  await page.locator('#limit-reached').waitFor()
  await page.locator('#callers').filter({ hasText: '4 of 4' }).waitFor()
  await works(t, page, 'limit reached')

  await page.getByLabel('Requests a minute').fill('0')
  await page.getByRole('button', { name: 'Change the limits' }).click()
  await page.getByRole('dialog').waitFor()
  await works(t, page, 'asked for a confirmation')
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()

  // The page asks the service every few seconds whether the session still exists.
  await page.context().clearCookies()
  await page.locator('#notice').waitFor()
  await works(t, page, 'session ended')
})
