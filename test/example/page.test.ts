// The example's page in a real browser: each way to sign in, spend the quota, be refused, wait, go on; the administrator's view.
// The minute that has to pass passes on the service's clock and on the browser's.
import { type Browser, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { VirtualClock } from '../lib/testing.js'
import { inaccessible, screenshots, startBrowser } from './support/browser.js'
import { RedisServer } from './support/redis-server.js'

const { createService }: typeof import('../examples/service/service.js') = await import(new URL('../build/examples/service/service.js', import.meta.url).href)

for (const name of Object.keys(process.env)) if (/^(JWT_|OIDC_|PUBLIC_URL|HOST|REDIS_URL|METRICS)/.test(name)) Reflect.deleteProperty(process.env, name)
Object.assign(process.env, { PORT: '0', LOG_LEVEL: 'error', SERVICE_RATE_LIMIT_PER_MINUTE: '3' })

/** Somebody at the page, in a browser of their own. */
class Visit {
  readonly page: Page
  /** What the browser complained of, refused requests aside, which it calls errors as well. */
  readonly complaints: string[] = []
  /** Where requests went that did not stay on this machine. */
  readonly abroad: string[] = []

  private constructor (page: Page) {
    this.page = page
    page.on('console', (message) => { if (message.type() === 'error' && !/status of 4(01|03|29)/.test(message.text())) this.complaints.push(message.text()) })
    page.on('pageerror', (error) => { this.complaints.push(String(error)) })
    page.on('request', (request) => { if (new URL(request.url()).hostname !== '127.0.0.1') this.abroad.push(request.url()) })
  }

  static async begin (browser: Browser, address: string, options: { colorScheme?: 'light' | 'dark', width?: number } = {}): Promise<Visit> {
    const context = await browser.newContext({ colorScheme: options.colorScheme ?? 'light', viewport: { width: options.width ?? 1200, height: 900 } })
    const visit = new Visit(await context.newPage())
    visit.page.setDefaultTimeout(10_000)
    await visit.page.clock.install()
    await visit.page.goto(address)
    await visit.reads('#who', /Nobody is signed in|Signed in/)
    return visit
  }

  /** Waits until an element reads as expected; gives what it reads. */
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

  /** Runs an operation and waits for what the page says of it. */
  async run (operation: string, expected: RegExp | string = 'Done.'): Promise<void> {
    await this.page.getByText(operation, { exact: true }).click()
    await this.page.getByRole('button', { name: 'Run' }).click()
    try {
      await this.page.locator('#progress, #refusal-message').filter({ hasText: expected }).first().waitFor()
    } catch (cause) {
      throw new Error(`the page says: ${await this.page.locator('main').innerText()}`, { cause })
    }
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

async function start (t: Test, redisUrl = '') {
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

t.test('the page', async (t) => {
  const browser = await startBrowser()
  t.teardown(() => browser.close())

  for (const store of ['in the process', 'shared']) {
    t.test(`with a store ${store}`, async (t) => {
      const server = store === 'shared' ? await RedisServer.start() : undefined
      const { address, minutePasses } = await start(t, server?.url)
      t.teardown(() => server?.stop())

      await t.test('nobody is refused', async (t) => {
        const visit = await Visit.begin(browser, address)
        await visit.run('Analyze', 'Authentication is required for this LLM operation.')
        t.notOk(await visit.page.locator('#wait').isVisible(), 'and need not wait')
        await visit.signInLocally('alice', 'wrong')
        await visit.reads('#local-error', 'The user name or the password is wrong.')
        await visit.end(t)
      })

      await t.test('somebody spends the quota, is refused, waits, and goes on', async (t) => {
        const visit = await Visit.begin(browser, address)
        await visit.signInLocally('alice', 'wonderland')
        await visit.reads('#who', /Signed in as alice \(local account\), counted as fe8a67d0/)
        await visit.reads('#summary', 'No window is open: the next request opens one. The limit is 3 a minute.')
        await visit.run('Analyze')
        await visit.reads('#answer', 'What the model read')
        await visit.run('Justify a term')
        await visit.reads('#answer', 'Invoicing applies')
        await visit.run('Score a node')
        await visit.reads('#answer', 'Human resources (HR)')
        await visit.reads('#summary', /^3 of 3 admitted, 0 refused; the window ends in (60|59) s\.$/)

        await visit.run('Analyze', 'Rate limit exceeded. Maximum 3 LLM requests per minute. Please wait.')
        const seconds = Number(/\d+/.exec(await visit.reads('#countdown', / s$/))?.[0])
        t.ok(seconds > 50 && seconds <= 60, `${seconds} s to wait`)
        const button = visit.page.getByRole('button', { name: 'Run again' })
        t.equal(await button.getAttribute('aria-disabled'), 'true')
        await visit.reads('#summary', '3 of 3 admitted, 1 refused')
        t.equal(await visit.page.locator('#timeline circle.admitted').count(), 3)
        t.equal(await visit.page.locator('#timeline path.refused').count(), 1)
        t.equal(await visit.page.locator('#timeline line.limit').count(), 1)
        await button.press('Enter')
        await visit.page.clock.runFor(2000)
        t.match(await visit.reads('#summary', '3 of 3 admitted'), '1 refused', 'the button does nothing yet')
        const later = Number(/\d+/.exec(await visit.reads('#countdown', / s$/))?.[0])
        t.ok(later < seconds, `${later} s to wait`)

        await minutePasses(visit)
        await visit.reads('#progress', 'Your window has ended. You can run operations again.')
        t.equal(await visit.page.getByRole('button', { name: 'Run', exact: true }).getAttribute('aria-disabled'), null)
        t.notOk(await visit.page.locator('#refusal').isVisible())
        await visit.run('Analyze')
        await visit.reads('#summary', '1 of 3 admitted, 0 refused')
        await visit.page.getByRole('button', { name: 'Sign out' }).click()
        await visit.reads('#who', 'Nobody is signed in')
        await visit.end(t)
      })

      await t.test('a made-up person signs in with OpenID Connect, watches the stream, and signs out at both places', async (t) => {
        const visit = await Visit.begin(browser, address)
        await visit.signInWithOpenId('Mira Lindqvist')
        await visit.reads('#who', /Signed in as mira \(OpenID Connect\)/)
        await visit.page.evaluate(`{
          const progress = document.getElementById('progress')
          globalThis.seen = []
          new MutationObserver(() => globalThis.seen.push(progress.textContent)).observe(progress, { childList: true })
        }`)
        await visit.run('Stream')
        t.equal(await visit.page.locator('#answer li').count(), 4)
        const seen = await visit.page.evaluate<string[]>('globalThis.seen')
        t.same(seen.filter((said) => /Sentence/.test(said)).at(0), 'Sentence 1 has arrived.', 'one after another')
        for (const expected of ['Done.', 'Done.', 'Rate limit exceeded.']) await visit.run('Stream', expected)
        t.match(await visit.reads('#refusal-message', 'Rate limit'), 'Maximum 3')

        await visit.page.getByRole('button', { name: 'Sign out' }).click()
        await visit.page.getByRole('button', { name: 'Sign out' }).click()
        await visit.reads('#who', 'Nobody is signed in')
        await visit.page.getByRole('link', { name: 'Sign in with OpenID' }).click()
        await visit.page.getByRole('button', { name: 'Cancel' }).click()
        await visit.reads('#notice', 'The OpenID sign-in was refused or cancelled.')
        await visit.end(t)
      })

      await t.test('an administrator sees everybody, by digest, and changes the limit at once', async (t) => {
        const [administrator, alice] = [await Visit.begin(browser, address), await Visit.begin(browser, address)]
        await minutePasses(administrator, alice)
        await administrator.signInLocally('admin', 'looking-glass')
        await administrator.reads('#callers-caption', 'Callers with a counter')
        await alice.signInLocally('alice', 'wonderland')
        await alice.reads('#who', /^Signed in as/)
        for (const expected of ['Done.', 'Done.', 'Done.', 'Rate limit exceeded.']) await alice.run('Analyze', expected)
        await administrator.reads('#callers', /fe8a67d0\s*3 of 3\s*1\s*\d+ s/)
        await administrator.reads('#callers', /Overflow, shared by all others\s*not in use/)
        t.notMatch(await administrator.page.locator('#administration').innerText(), /alice|mira/)
        t.notOk(await alice.page.locator('#administration').isVisible(), 'for administrators alone')

        await administrator.page.getByLabel('Requests a minute').fill('5')
        await administrator.page.getByRole('button', { name: 'Change the limit' }).click()
        await administrator.reads('#limit-status', 'The limit is 5 now.')
        await alice.page.locator('#timeline .limit-label').filter({ hasText: 'limit 5' }).waitFor()
        await alice.page.reload()
        await alice.reads('#summary', '3 of 5 admitted, 1 refused')
        await alice.run('Analyze')
        await administrator.reads('#callers', /fe8a67d0\s*4 of 5/)

        await administrator.page.getByLabel('Requests a minute').fill('0')
        await administrator.page.getByRole('button', { name: 'Change the limit' }).click()
        await alice.reads('#summary', 'The quota is switched off.')
        await administrator.page.getByRole('button', { name: 'Use the configured limit' }).click()
        await administrator.reads('#limit-status', 'The configured limit holds again.')
        await alice.page.locator('#timeline .limit-label').filter({ hasText: 'limit 3' }).waitFor()
        await alice.end(t)
        await administrator.end(t)
      })
    })
  }

  t.test('it can be used with the keyboard alone', async (t) => {
    const { address } = await start(t)
    const { page, ...visit } = await Visit.begin(browser, address)
    const focus = async (): Promise<string> => await page.evaluate<string>('document.activeElement.textContent.trim() || document.activeElement.name')
    await page.keyboard.press('Tab')
    t.equal(await focus(), 'Skip to the operations')
    await page.keyboard.press('Tab')
    t.equal(await focus(), 'username')
    await page.keyboard.type('alice')
    await page.keyboard.press('Tab')
    await page.keyboard.type('wonderland')
    await page.keyboard.press('Enter')
    await page.locator('#who').filter({ hasText: 'Signed in as alice' }).waitFor()
    t.equal(await focus(), 'Sign out', 'the focus is somewhere sensible')
    await page.keyboard.press('Tab')
    await page.keyboard.press('ArrowRight')
    t.equal(await page.locator('#address').innerText(), 'POST /api/justify-leaf')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Tab')
    t.equal(await focus(), 'leaf')
    await page.keyboard.press('Enter')
    await page.locator('#answer').filter({ hasText: 'Invoicing applies' }).waitFor()
    t.same(visit.complaints, [])
  })

  for (const [name, options] of Object.entries({ light: {}, dark: { colorScheme: 'dark' }, phone: { width: 390 }, 'phone-dark': { width: 390, colorScheme: 'dark' } } as const)) {
    t.test(`it is accessible and fits: ${name}`, async (t) => {
      const { address, pass } = await start(t)
      const visit = await Visit.begin(browser, address, options)
      const fits = async (): Promise<boolean> => await visit.page.evaluate('document.documentElement.scrollWidth <= innerWidth')
      await visit.screenshot(`${name}-signed-out`)
      t.same(await inaccessible(visit.page), [], 'signed out')
      t.ok(await fits())
      await visit.page.getByRole('link', { name: 'Sign in with OpenID' }).click()
      await visit.page.getByRole('heading', { name: 'Sign in' }).waitFor()
      t.same(await inaccessible(visit.page), [], 'at the provider')
      t.ok(await fits())
      await visit.page.goBack()
      await visit.signInLocally('admin', 'looking-glass')
      await visit.reads('#who', /^Signed in as/)
      for (const seconds of [9, 14, 6]) {
        await visit.run('Analyze')
        await pass(seconds, visit)
      }
      await visit.reads('#callers', /3 of 3/)
      t.same(await inaccessible(visit.page), [], 'with an answer')
      const headers = { authorization: `Basic ${Buffer.from('alice:wonderland').toString('base64')}`, 'content-type': 'application/json' }
      for (let request = 0; request < 2; request++) await fetch(`${address}/api/analyze`, { method: 'POST', headers, body: '{"businessText":"Invoices are late."}' })
      await visit.reads('#callers', /2 of 3/)
      await visit.run('Analyze', 'Rate limit exceeded.')
      await pass(4, visit)
      await visit.reads('#callers', /3 of 3\s*1/)
      t.same(await inaccessible(visit.page), [], 'refused')
      t.ok(await fits())
      await visit.screenshot(`${name}-refused`)
      await visit.end(t)
    })
  }

  t.test('it may load and run nothing that is not the service\'s own', async (t) => {
    const { address } = await start(t)
    const { headers } = await fetch(address)
    t.equal(headers.get('content-security-policy'), 'default-src \'none\';script-src \'self\';style-src \'self\';img-src \'self\';connect-src \'self\';form-action \'self\';base-uri \'none\';frame-ancestors \'none\';require-trusted-types-for \'script\'')
    const visit = await Visit.begin(browser, address)
    await visit.page.evaluate(`{
      const image = document.createElement('img')
      image.src = 'http://localhost:1/elsewhere.png'
      const script = document.createElement('script')
      document.body.append(image, script)
      try { script.text = 'globalThis.ran = true' } catch {}
      const another = document.createElement('div')
      try { another.innerHTML = '<b>injected</b>' } catch {}
      document.body.append(another)
    }`)
    t.equal(await visit.page.evaluate('globalThis.ran'), undefined)
    t.equal(await visit.page.locator('b', { hasText: 'injected' }).count(), 0)
    t.equal(visit.complaints.filter((complaint) => /img-src|TrustedHTML|TrustedScript/.test(complaint)).length, 3, visit.complaints.join('\n'))
    await visit.page.context().close()
  })
})
