import { spawnSync } from 'node:child_process'
import { type Browser, chromium, type Page, type ViewportSize } from 'playwright-core'
import tap, { type Test } from 'tap'
import { VirtualClock } from '../../lib/testing.js'
import { startService } from './example-service.js'

const passwords = { alice: 'wonderland', admin: 'looking-glass' }

let browser: Promise<Browser> | undefined

/** Starts the Chromium that is on the PATH, once for all tests of the process. */
async function startBrowser (): Promise<Browser> {
  const found = ['chromium', 'chromium-browser', 'google-chrome'].map((name) => spawnSync('which', [name], { encoding: 'utf8' }).stdout.trim()).find((path) => path !== '')
  if (found === undefined) throw new Error('there is no chromium on the PATH; install Debian\'s chromium')
  // Chromium has no sandbox for root. The pages are served from loopback only.
  const started = await chromium.launch({
    executablePath: found,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
  })
  tap.teardown(() => started.close())
  return started
}

/** A user of the page with cookies of its own. */
export class Visit {
  readonly page: Page
  /** The errors that the browser reported, except for 4xx responses, and the addresses of requests to other machines. */
  readonly #complaints: string[] = []

  private constructor (page: Page) {
    this.page = page
    page.on('console', (message) => { if (message.type() === 'error' && !/status of 4(01|03|29)|net::ERR_/.test(message.text())) this.#complaints.push(message.text()) })
    page.on('pageerror', (error) => { this.#complaints.push(String(error)) })
    page.on('request', (request) => { if (new URL(request.url()).hostname !== '127.0.0.1') this.#complaints.push(request.url()) })
  }

  static async begin (address: string, viewport: ViewportSize = { width: 1280, height: 900 }): Promise<Visit> {
    const context = await (await (browser ??= startBrowser())).newContext({ reducedMotion: 'reduce', viewport })
    const visit = new Visit(await context.newPage())
    visit.page.setDefaultTimeout(20_000)
    await visit.page.clock.install()
    await visit.page.goto(address)
    await visit.reads('#who', /Not signed in|Signed in/)
    return visit
  }

  /** Waits until the text of an element matches, and returns the text. */
  async reads (selector: string, expected: RegExp | string): Promise<string> {
    await this.page.locator(selector).filter({ hasText: expected }).waitFor()
    return await this.page.locator(selector).innerText()
  }

  async shows (selector: string): Promise<boolean> {
    return await this.page.locator(selector).isVisible()
  }

  async signInLocally (username: string, password: string): Promise<void> {
    await this.page.getByLabel('User name').fill(username)
    await this.page.getByLabel('Password').fill(password)
    await this.page.getByRole('button', { name: 'Sign in', exact: true }).click()
  }

  /** Signs in with a demonstration account, and waits for the user's standing. */
  async signIn (username: keyof typeof passwords): Promise<void> {
    await this.signInLocally(username, passwords[username])
    await this.reads('#who', `Signed in as ${username}`)
    await this.reads('h1', /minute/)
  }

  async signInWithOpenId (person: string, preferredName?: string): Promise<void> {
    await this.click('Sign in with OpenID')
    if (preferredName !== undefined) await this.page.getByLabel('Preferred user name').first().fill(preferredName)
    await this.click(`Sign in as ${person}`)
    await this.reads('#who', /^Signed in as/)
  }

  async click (name: string): Promise<void> {
    await this.page.getByRole('link', { name, exact: true }).or(this.page.getByRole('button', { name, exact: true })).click()
  }

  /** Ends the session. The page learns this from its next request, except for the regular ones for the state, which fail from now on. */
  async loseSession (): Promise<void> {
    await this.page.route('**/api/quota', async (route) => { await route.abort() })
    await this.page.context().clearCookies()
  }

  /** Runs an operation and waits for the message of the page. */
  async run (operation: string, expected: RegExp | string = 'Done.'): Promise<void> {
    await this.page.getByText(operation, { exact: true }).click()
    await this.press('#run-button', expected)
  }

  /** Sends a request although the limit is reached. */
  async sendAnyway (expected: RegExp | string = 'Rate limit exceeded.'): Promise<void> {
    await this.press('#anyway', expected)
  }

  private async press (selector: string, expected: RegExp | string): Promise<void> {
    await this.page.locator(selector).click()
    try {
      await this.page.locator('#progress, #limit-message, #problem').filter({ hasText: expected }).first().waitFor()
    } catch (cause) {
      throw new Error(`the page says: ${await this.page.locator('main').innerText()}`, { cause })
    }
  }

  async change (requests: string, tokens?: string, streams?: string): Promise<void> {
    for (const [id, limit] of Object.entries({ requests, tokens, streams })) if (limit !== undefined) await this.page.locator(`#${id}-limit`).fill(limit)
    await this.click('Change the limits')
    if ([requests, tokens, streams].includes('0')) return
    await this.reads('#limit-status', 'The limits have changed.')
  }

  /** Returns the ID of the element with the keyboard focus. */
  async focus (): Promise<string> {
    return await this.page.evaluate<string>('document.activeElement.id')
  }

  /** Takes a screenshot in a folder that git ignores. */
  async screenshot (name: string): Promise<void> {
    await this.page.screenshot({ path: `build/screenshots/${name}.png`, fullPage: true })
  }

  async end (t: Test): Promise<void> {
    t.same(this.#complaints, [], 'the browser complains of nothing, and loads nothing from elsewhere')
    await this.page.context().close()
  }
}

/** Starts the service for the page, with a limit of three requests and a clock that a test moves, and a function that begins a visit. */
export async function startPage (t: Test, environment: Record<string, string> = {}) {
  const clock = new VirtualClock()
  const { app, address } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '3', LOG_LEVEL: 'error', ...environment }, clock.now)
  const pass = async (seconds: number, ...visits: Visit[]): Promise<void> => {
    clock.advance(seconds * 1000)
    for (const { page } of visits) await page.clock.runFor(seconds * 1000)
  }
  const begin = async (path = '/', viewport?: ViewportSize): Promise<Visit> => await Visit.begin(address + path, viewport)
  return { app, address, begin, pass }
}
