import { type Browser, type Page } from 'playwright-core'
import { type Test } from 'tap'
import { VirtualClock } from '../../lib/testing.js'
import { screenshots } from './browser.js'

import { createService } from '../../examples/service/service.js'

for (const name of Object.keys(process.env)) if (/^(JWT_|OIDC_|PUBLIC_URL|HOST|REDIS_URL|DATABASE_URL|METRICS|SERVICE_RATE)/.test(name)) Reflect.deleteProperty(process.env, name)
Object.assign(process.env, { PORT: '0', LOG_LEVEL: 'error', SERVICE_RATE_LIMIT_PER_MINUTE: '3' })

/** A user of the page with a separate browser. */
export class Visit {
  readonly page: Page
  /** The errors that the browser reported, except for 4xx responses. */
  readonly complaints: string[] = []
  /** The addresses of requests to other machines. */
  readonly abroad: string[] = []

  private constructor (page: Page) {
    this.page = page
    page.on('console', (message) => { if (message.type() === 'error' && !/status of 4(01|03|29)|net::ERR_/.test(message.text())) this.complaints.push(message.text()) })
    page.on('pageerror', (error) => { this.complaints.push(String(error)) })
    page.on('request', (request) => { if (new URL(request.url()).hostname !== '127.0.0.1') this.abroad.push(request.url()) })
  }

  static async begin (browser: Browser, address: string, options: { colorScheme?: 'light' | 'dark', width?: number, height?: number } = {}): Promise<Visit> {
    const context = await browser.newContext({ reducedMotion: 'reduce', colorScheme: options.colorScheme ?? 'light', viewport: { width: options.width ?? 1200, height: options.height ?? 900 } })
    const visit = new Visit(await context.newPage())
    visit.page.setDefaultTimeout(10_000)
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

  async signInLocally (username: string, password: string): Promise<void> {
    await this.page.getByLabel('User name').fill(username)
    await this.page.getByLabel('Password').fill(password)
    await this.page.getByRole('button', { name: 'Sign in', exact: true }).click()
  }

  async signInWithOpenId (person: string): Promise<void> {
    await this.page.getByRole('link', { name: 'Sign in with OpenID' }).click()
    await this.page.getByRole('button', { name: `Sign in as ${person}` }).click()
    await this.reads('#who', /^Signed in as/)
  }

  /**
   * Ends the session, which the page learns from its next request. Stops the clock of the page, so that this is not one of its regular
   * requests for the state.
   */
  async loseSession (): Promise<void> {
    await this.page.clock.pauseAt(await this.page.evaluate<number>('Date.now()') + 100)
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

  /** Changes the limit as an administrator. */
  async change (limit: string): Promise<void> {
    await this.page.getByLabel('Requests a minute').fill(limit)
    await this.page.getByRole('button', { name: 'Change the limits' }).click()
  }

  async screenshot (name: string): Promise<void> {
    await this.page.screenshot({ path: `${screenshots}/${name}.png`, fullPage: true })
  }

  async end (t: Test): Promise<void> {
    t.same(this.complaints, [], 'the browser complains of nothing')
    t.same(this.abroad, [], 'nothing is loaded from elsewhere')
    await this.page.context().close()
  }
}

/** Checks that an element is on the screen of a phone, 844 pixels high. */
export async function inView (t: Test, page: Page, selector: string, message: string): Promise<void> {
  const box = await page.locator(selector).boundingBox()
  t.ok(box !== null && box.y >= 0 && box.y + box.height <= 844, `${message}: ${selector} ${JSON.stringify(box)}`)
}

/** Starts the service for the page, with a clock that a test moves. */
export async function startPage (t: Test, redisUrl = '') {
  process.env['REDIS_URL'] = redisUrl
  const clock = new VirtualClock()
  const app = await createService({ clock: clock.now })
  await app.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => app.close())
  const pass = async (seconds: number, ...visits: Visit[]): Promise<void> => {
    clock.advance(seconds * 1000)
    for (const { page } of visits) await page.clock.runFor(seconds * 1000)
  }
  const minutePasses = async (...visits: Visit[]): Promise<void> => await pass(60, ...visits)
  return { address: app.listeningOrigin, pass, minutePasses }
}
