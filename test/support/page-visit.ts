import { spawnSync } from 'node:child_process'
import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import tap, { type Test } from 'tap'
import { VirtualClock } from '../../lib/testing.js'
import { startService } from './example-service.js'

const passwords = { alice: 'wonderland', admin: 'looking-glass' }
const arguments_ = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']

let browser: Promise<Browser> | undefined

/** Starts the Chromium that is on the PATH, once for all tests of the process. */
async function startBrowser (): Promise<Browser> {
  const executablePath = ['chromium', 'chromium-browser', 'google-chrome'].map((name) => spawnSync('which', [name], { encoding: 'utf8' }).stdout.trim()).find((path) => path !== '')
  if (executablePath === undefined) throw new Error('there is no chromium on the PATH; install Debian\'s chromium')
  const started = await chromium.launch({ executablePath, args: arguments_ })
  tap.teardown(() => started.close())
  return started
}

/** A user of the page. */
class Visit {
  readonly page: Page
  // Errors in the browser, except for refused requests, and requests to other machines.
  readonly #complaints: string[] = []

  private constructor (page: Page) {
    this.page = page
    page.on('console', (message) => { if (message.type() === 'error' && !/status of (4|5)|net::ERR_/.test(message.text())) this.#complaints.push(message.text()) })
    page.on('pageerror', (error) => { this.#complaints.push(String(error)) })
    page.on('request', (request) => { if (new URL(request.url()).hostname !== '127.0.0.1') this.#complaints.push(request.url()) })
    page.on('dialog', (dialog) => { dialog.accept().catch((error: unknown) => { this.#complaints.push(String(error)) }) })
  }

  static async begin (address: string): Promise<Visit> {
    const context = await (await (browser ??= startBrowser())).newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 900 } })
    const visit = new Visit(await context.newPage())
    visit.page.setDefaultTimeout(20_000)
    await visit.page.clock.install()
    await visit.page.goto(address)
    return visit
  }

  /** Waits until the text of an element matches. */
  async reads (selector: string, expected: RegExp | string): Promise<void> {
    try {
      await this.page.locator(selector).filter({ hasText: expected }).first().waitFor()
    } catch (cause) {
      throw new Error(`${selector} is not ${String(expected)}; the page says: ${await this.page.locator('body').innerText()}`, { cause })
    }
  }

  async signIn (username: keyof typeof passwords, password: string = passwords[username]): Promise<void> {
    await this.page.getByLabel('User name').fill(username)
    await this.page.getByLabel('Password').fill(password)
    await this.click('Sign in')
    if (password === passwords[username]) await this.reads('h1', 'a minute')
  }

  async click (name: string): Promise<void> {
    await this.page.getByRole('button', { name, exact: true }).click()
  }

  /** Runs an operation and waits for what the page says. */
  async run (operation: string, selector = '#progress', expected: RegExp | string = 'Done.'): Promise<void> {
    await this.page.getByText(operation, { exact: true }).click()
    await this.click('Run')
    await this.reads(selector, expected)
  }

  async setLimits (limits: Record<string, string>): Promise<void> {
    for (const [label, limit] of Object.entries(limits)) await this.page.getByLabel(label).fill(limit)
    await this.click('Change the limits')
    await this.reads('#limit-status', 'The limits have changed.')
  }

  /** Checks a state in both colour schemes, on a desktop and on a phone, and takes screenshots in a folder that git ignores. */
  async check (t: Test, state: string): Promise<void> {
    for (const [name, width, colorScheme] of [['light', 1280, 'light'], ['dark', 1280, 'dark'], ['phone', 390, 'light'], ['phone-dark', 390, 'dark']] as const) {
      await this.page.setViewportSize({ width, height: 900 })
      await this.page.emulateMedia({ colorScheme })
      if (!await this.page.evaluate('"axe" in globalThis')) await this.page.evaluate(axe.source)
      t.same(await this.page.evaluate('axe.run().then(({ violations }) => violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ": " + html)))'), [], `${state}, ${name}: accessible`)
      t.ok(await this.page.evaluate('document.documentElement.scrollWidth <= innerWidth'), `${state}, ${name}: nothing is wider than the window`)
      await this.page.screenshot({ path: `build/screenshots/${name}-${state}.png`, fullPage: true })
    }
    await this.page.setViewportSize({ width: 1280, height: 900 })
  }

  async end (t: Test): Promise<void> {
    t.same(this.#complaints, [], 'the browser complains of nothing, and loads nothing from elsewhere')
    await this.page.context().close()
  }
}

/** Starts the service with a limit of three requests and a clock that a test moves, and returns a function that begins a visit. */
export async function startPage (t: Test, environment: Record<string, string> = {}) {
  const clock = new VirtualClock()
  const { address, app } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '3', LOG_LEVEL: 'error', ...environment }, clock.now)
  return {
    app,
    begin: async () => await Visit.begin(address),
    async pass (seconds: number, ...visits: Visit[]) {
      clock.advance(seconds * 1000)
      for (const { page } of visits) await page.clock.runFor(seconds * 1000)
    }
  }
}
