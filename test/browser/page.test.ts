// The example's page in a real browser. The minute of waiting passes on the virtual clocks of the
// service and of the browser.
import { spawnSync } from 'node:child_process'
import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import { VirtualClock } from '../../lib/testing.js'
import { startService } from '../support/example-service.js'
import t, { type Test } from 'tap'
import { complete, startOpenAiServer, streamPart } from '../support/openai-server.js'

const passwords = { alice: 'wonderland', admin: 'looking-glass' }
const arguments_ = [
  '--no-sandbox',
  '--disable-gpu',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync'
]

let browser: Promise<Browser> | undefined

/** Starts the Chromium that is on the PATH, once for all tests of the process. */
async function startBrowser (): Promise<Browser> {
  const executablePath = ['chromium', 'chromium-browser', 'google-chrome']
    .map((name) => spawnSync('which', [name], { encoding: 'utf8' }).stdout.trim())
    .find((path) => path !== '')
  if (executablePath === undefined) {
    throw new Error("there is no chromium on the PATH; install Debian's chromium")
  }
  const started = await chromium.launch({ executablePath, args: arguments_ })
  t.teardown(() => started.close())
  return started
}

/** A user of the page. */
class Visit {
  readonly page: Page
  // Errors in the browser, except for refused requests, and requests to other machines.
  readonly #complaints: string[] = []
  private constructor (page: Page) {
    this.page = page
    page.on('console', (message) => {
      if (message.type() === 'error' && !/status of (4|5)|net::ERR_/.test(message.text())) {
        this.#complaints.push(message.text())
      }
    })
    page.on('pageerror', (error) => {
      this.#complaints.push(String(error))
    })
    page.on('request', (request) => {
      if (new URL(request.url()).hostname !== '127.0.0.1') this.#complaints.push(request.url())
    })
    page.on('dialog', (dialog) => {
      dialog.accept().catch((error: unknown) => {
        this.#complaints.push(String(error))
      })
    })
  }

  static async begin (address: string): Promise<Visit> {
    const context = await (
      await (browser ??= startBrowser())
    ).newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 900 } })
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
      throw new Error(
        `${selector} is not ${String(expected)}; the page says: ` +
          (await this.page.locator('body').innerText()),
        { cause }
      )
    }
  }

  async signIn (
    username: keyof typeof passwords,
    password: string = passwords[username]
  ): Promise<void> {
    await this.page.getByLabel('User name').fill(username)
    await this.page.getByLabel('Password').fill(password)
    await this.click('Sign in')
    if (password === passwords[username]) await this.reads('h1', 'a minute')
  }

  async click (name: string): Promise<void> {
    await this.page.getByRole('button', { name, exact: true }).click()
  }

  /** Runs an operation and waits for what the page says. */
  async run (
    operation: string,
    selector = '#progress',
    expected: RegExp | string = 'Done.'
  ): Promise<void> {
    await this.page.getByText(operation, { exact: true }).click()
    await this.click('Run')
    await this.reads(selector, expected)
  }

  async setLimits (limits: Record<string, string>): Promise<void> {
    for (const [label, limit] of Object.entries(limits)) {
      await this.page.getByLabel(label).fill(limit)
    }
    await this.click('Change the limits')
    await this.reads('#limit-status', 'The limits have changed.')
  }

  /**
   * Checks a state in both colour schemes, on a desktop and on a phone, and takes screenshots in a
   * folder that git ignores.
   */
  async check (t: Test, state: string): Promise<void> {
    for (const [name, width, colorScheme] of [
      ['light', 1280, 'light'],
      ['dark', 1280, 'dark'],
      ['phone', 390, 'light'],
      ['phone-dark', 390, 'dark']
    ] as const) {
      await this.page.setViewportSize({ width, height: 900 })
      await this.page.emulateMedia({ colorScheme })
      if (!(await this.page.evaluate('"axe" in globalThis'))) await this.page.evaluate(axe.source)
      t.same(
        await this.page.evaluate(
          `axe.run().then(({ violations }) =>
            violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ": " + html)))`
        ),
        [],
        `${state}, ${name}: accessible`
      )
      t.ok(
        await this.page.evaluate('document.documentElement.scrollWidth <= innerWidth'),
        `${state}, ${name}: nothing is too wide`
      )
      await this.page.screenshot({ path: `build/screenshots/${name}-${state}.png`, fullPage: true })
    }
    await this.page.setViewportSize({ width: 1280, height: 900 })
  }

  async end (t: Test): Promise<void> {
    t.same(
      this.#complaints,
      [],
      'the browser complains of nothing, and loads nothing from elsewhere'
    )
    await this.page.context().close()
  }
}

/** Starts the service with a limit of three requests and a clock that a test moves. */
async function startPage (t: Test, environment: Record<string, string> = {}) {
  const clock = new VirtualClock()
  const { address, app } = await startService(
    t,
    { SERVICE_RATE_LIMIT_PER_MINUTE: '3', LOG_LEVEL: 'error', ...environment },
    clock.now
  )
  return {
    app,
    begin: async () => await Visit.begin(address),
    async pass (seconds: number, ...visits: Visit[]) {
      clock.advance(seconds * 1000)
      for (const { page } of visits) await page.clock.runFor(seconds * 1000)
    }
  }
}

t.test('a user signs in, uses up the quota, is rejected, waits, and continues', async (t) => {
  const { begin, pass } = await startPage(t)
  const visit = await begin()
  const { page } = visit
  await visit.reads('h1', 'A quota for model calls')
  await visit.check(t, 'visitor')
  await visit.run('Analyze', '#problem', 'Authentication is required for this LLM operation.')
  await visit.signIn('alice', 'wrong')
  await visit.reads('#sign-in-error', 'The user name or the password is wrong.')
  await visit.signIn('alice')
  await visit.reads('#who', 'Signed in as alice, counted as fe8a67d0')
  await visit.reads('#summary', 'No window is open: the next request opens one.')
  t.equal(await page.locator('#problem').count(), 0, 'the message for visitors disappears')
  t.equal(await page.evaluate('document.activeElement.id'), 'operations')
  await visit.run('Justify a term')
  await visit.reads('#answer', 'Invoicing applies')
  await pass(9, visit)
  await visit.run('Score a group')
  await visit.reads('#answer', 'Accounting (FIN-ACC)')
  await pass(14, visit)
  await visit.run('Analyze')
  await visit.reads('#answer', 'Customers in Berlin complain loudly!')
  await visit.check(t, 'answer')
  await visit.reads('#limit-message', 'Limit reached: 3 of 3 requests used.')
  await pass(6, visit)
  await visit.click('Send one anyway')
  await visit.reads(
    '#limit-message',
    'Rate limit exceeded. Maximum 3 LLM requests per minute. Please wait.'
  )
  await visit.reads('#wait', /Run again in 3[01]\ss\./)
  await visit.reads('#summary', /^3 of 3 admitted, 1 rejected\.$/)
  for (const [mark, count] of [
    ['circle.admitted', 3],
    ['path.rejected', 1],
    ['line.limit', 1]
  ] as const) {
    t.equal(await page.locator(`#timeline ${mark}`).count(), count, mark)
  }
  const button = page.locator('#run-button')
  t.equal(await button.getAttribute('aria-disabled'), 'true')
  const colors = '(({ color, backgroundColor }) => [color, backgroundColor])'
  const colorsOfButton = () =>
    page.evaluate(`${colors}(getComputedStyle(document.getElementById('run-button')))`)
  const withoutPointer = await colorsOfButton()
  await button.hover()
  t.same(await colorsOfButton(), withoutPointer, 'the pointer does not make the button unreadable')
  await page.locator('#run').evaluate('(form) => form.requestSubmit()')
  await visit.reads('#limit-message', 'Rate limit exceeded.')
  await page.reload()
  await visit.reads('#limit-message', 'Limit reached: 3 of 3 requests used.')
  await visit.reads('#summary', '3 of them at a time that this page has not seen')
  t.equal(await page.locator('#timeline circle.admitted').count(), 0, 'it invents no time')
  const start = Number(
    /^M (\S+) /.exec((await page.locator('#timeline .steps').getAttribute('d')) ?? '')?.[1]
  )
  t.ok(start > 52 + 560 / 4, `the line begins when the page has seen the window, at ${start}`)
  await page.locator('#anyway').focus()
  await pass(32, visit)
  await page.locator('#limit-reached').waitFor({ state: 'detached' })
  t.equal(
    await page.evaluate('document.activeElement.id'),
    'run-button',
    'the focus moves from the button that has disappeared'
  )
  await visit.run('Stream')
  t.equal(await page.locator('#answer li').count(), 4)
  await visit.reads('#summary', /^1 of 3 admitted, 0 rejected; the window ends in (60|59)\ss\.$/)
  await visit.click('Sign out')
  await visit.reads('#who', 'Not signed in')
  await visit.end(t)
})

t.test('an administrator sees all callers, changes the limits, and resets a caller', async (t) => {
  const { begin, pass } = await startPage(t)
  const [admin, alice] = [await begin(), await begin()]
  await alice.signIn('alice')
  for (let request = 0; request < 2; request++) await alice.run('Analyze')
  t.equal(await alice.page.locator('#administration').count(), 0)
  await admin.signIn('admin')
  await admin.reads('#callers', /fe8a67d0\s*2 of 3\s*\d+\ss/)
  for (const seconds of [9, 14, 11]) {
    await admin.run('Analyze')
    await pass(seconds, admin, alice)
  }
  await admin.click('Send one anyway')
  await admin.reads('#limit-message', 'Rate limit exceeded.')
  await admin.check(t, 'administrator')
  await admin.setLimits({
    'Requests a minute': '5',
    'Tokens a minute': '100',
    'Concurrent requests': '1'
  })
  await admin.reads('#intro', 'Further limits: 100 tokens a minute, 1 concurrent request.')
  await alice.reads('h1', '5 model calls a minute')
  // The text has 38 tokens.
  await alice.run('Analyze')
  await alice.reads('[data-quota=tokens]', /38 of 100 tokens used; the window ends in \d+\ss\./)
  await alice.reads('[data-quota=concurrency]', '0 of 1 requests running.')
  await admin.check(t, 'three-quotas')
  await admin.setLimits({ 'Requests a minute': '2' })
  await alice.reads('#summary', '3 admitted; the limit is 2 now, 0 rejected')
  await admin.reads('#callers', /fe8a67d0\s*3, limit now 2/)
  await admin.click('Forget fe8a67d0')
  await admin.reads('#limit-status', 'The caller fe8a67d0 starts with a new window.')
  await alice.reads('#summary', 'No window is open')
  await admin.setLimits({
    'Requests a minute': '0',
    'Tokens a minute': '0',
    'Concurrent requests': '0'
  })
  await alice.reads('#window-card', 'No quota is on')
  await alice.reads('h1', 'Model calls without a limit')
  await admin.click('Use the configured limits')
  await admin.reads('#default-in-force', 'In force: 3, as configured')
  await admin.end(t)
  await alice.end(t)
})

t.test('the page shows what a request in progress holds beside what is used', async (t) => {
  let answer = (): void => {}
  const model = await startOpenAiServer(t, (_request, response) => {
    answer = () => {
      complete(response, { sentences: [], sentiment: 0 }, { total_tokens: 20 })
    }
  })
  const { begin } = await startPage(t, {
    MODEL_URL: model.url,
    MODEL_NAME: 'small',
    SERVICE_RATE_LIMIT_TOKENS_PER_MINUTE: '2000'
  })
  const admin = await begin()
  await admin.signIn('admin')
  await admin.click('Run')
  await admin.reads(
    '[data-quota=tokens]',
    /0 of 2,000 tokens used, 1,040 held by requests in progress; the window ends in \d+\ss\./
  )
  await admin.reads('#callers', /0 of 2,000, 1,040 held/)
  await admin.check(t, 'held')
  answer()
  await admin.reads('#progress', 'Done.')
  await admin.reads('[data-quota=tokens]', /20 of 2,000 tokens used; the window ends/)
  await admin.reads('#callers', /20 of 2,000\s/)
  await admin.end(t)
})

t.test('the page says that a request waits for a free place', async (t) => {
  const answers: (() => void)[] = []
  const model = await startOpenAiServer(t, (_request, response) => {
    answers.push(() => {
      complete(response, { sentences: [], sentiment: 0 }, { total_tokens: 20 })
    })
  })
  const { begin } = await startPage(t, {
    MODEL_URL: model.url,
    MODEL_NAME: 'small',
    SERVICE_RATE_LIMIT_CONCURRENCY_CONCURRENT: '1'
  })
  const [first, second] = [await begin(), await begin()]
  await first.signIn('alice')
  await second.signIn('alice')
  await first.click('Run')
  await first.reads('#progress', 'The model is reading…')
  await first.reads('[data-quota=concurrency]', '1 of 1 requests running.')
  await second.click('Run')
  await second.reads('#progress', 'Waiting for a free place…')
  await second.check(t, 'waiting')
  answers[0]?.()
  await first.reads('#progress', 'Done.')
  await second.reads('#progress', 'The model is reading…')
  answers[1]?.()
  await second.reads('#progress', 'Done.')
  await first.end(t)
  await second.end(t)
})

t.test('the page can be used with the keyboard alone', async (t) => {
  const visit = await (await startPage(t)).begin()
  const { keyboard } = visit.page
  const press = async (...keys: string[]): Promise<void> => {
    for (const key of keys) await keyboard.press(key)
  }
  await press('Tab', 'Tab')
  await keyboard.type('alice')
  await press('Tab')
  await keyboard.type('wonderland')
  await press('Enter')
  await visit.reads('#who', 'Signed in as alice')
  await press('Tab', 'ArrowRight')
  await visit.reads('.address', 'POST /api/justify-leaf')
  await press('Tab', 'Tab', 'Enter')
  await visit.reads('#answer', 'Invoicing applies')
  await visit.end(t)
})

t.test(
  'the page says that a session has ended, and that the service or its model does not answer',
  async (t) => {
    const model = await startOpenAiServer(t, ({ stream }, response) => {
      if (!stream) return response.writeHead(500).end()
      streamPart(response, '{"text":"Invoices are late.","sentiment":0,"entities":[]}\n')
      return response.write(': comment\n\n', () => response.destroy())
    })
    const { app, begin } = await startPage(t, { MODEL_URL: model.url, MODEL_NAME: 'small' })
    const visit = await begin()
    await visit.signIn('alice')
    await visit.run('Analyze', '#problem', /The model failed\. Please try again in 5\ss\./)
    await visit.run('Stream', '#problem', 'The answer is incomplete: it has 1 sentences.')
    await visit.check(t, 'problem')
    await visit.page.evaluate(
      "sessionStorage.setItem('token', 'x.' + btoa('{\"sub\":\"alice\"}') + '.x')"
    )
    await visit.page.reload()
    await visit.reads('#notice', 'Your session has ended. Sign in again.')
    await visit.signIn('alice')
    await app.close()
    await visit.reads('#window-card', 'Live updates are interrupted.')
    await visit.click('Run')
    await visit.reads('#problem', 'The service cannot be reached. Please try again.')
    await visit.end(t)
  }
)
