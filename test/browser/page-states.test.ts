// Each state of the example's page in a real browser, in both colour schemes, on a desktop and on a phone: accessible, and never wider
// than the window.
import type { ServerResponse } from 'node:http'
import t from 'tap'
import { inaccessible, screenshots, startBrowser } from '../support/browser.js'
import { beginStream, OpenAiServer, streamPart } from '../support/openai-server.js'
import { inView, startPage, Visit } from '../support/page-visit.js'

interface Place extends Awaited<ReturnType<typeof startPage>> {
  readonly visit: Visit
  readonly page: Visit['page']
}

type States = Record<string, (place: Place) => Promise<unknown>>

const variants = [
  { name: 'light', width: 1280, height: 900, colorScheme: 'light' },
  { name: 'dark', width: 1280, height: 900, colorScheme: 'dark' },
  { name: 'phone', width: 390, height: 844, colorScheme: 'light' },
  { name: 'phone-dark', width: 390, height: 844, colorScheme: 'dark' }
] as const

const sentences = 'Our invoices went out late in March 2025. Customers in Berlin complain loudly about it! '

async function run (visit: Visit, ...operations: string[]): Promise<void> {
  await visit.signIn('alice')
  for (const operation of operations) await visit.run(operation)
}

async function reachLimit ({ visit, pass }: Place): Promise<void> {
  for (const seconds of [9, 14, 6]) {
    await visit.run('Analyze')
    await pass(seconds, visit)
  }
  await visit.reads('#limit-message', 'Limit reached')
}

async function administer (visit: Visit, requests?: string, tokens?: string, streams?: string): Promise<void> {
  await visit.signIn('admin')
  await visit.reads('#callers-caption', /\d/)
  if (requests !== undefined) await visit.change(requests, tokens, streams)
  if (requests === '0') await visit.click('Switch off')
}

async function send (address: string, user: string, path: string, request: RequestInit = {}): Promise<Response> {
  return await fetch(address + path, { ...request, headers: { authorization: `Basic ${Buffer.from(user).toString('base64')}`, 'content-type': 'application/json' } })
}

const states: States = {
  'signed out': async () => {},
  'without a caller': async ({ visit }) => { await visit.run('Analyze', 'Authentication is required') },
  'wrong password': async ({ visit }) => {
    await visit.signInLocally('alice', 'wrong')
    await visit.reads('#local-error', 'wrong')
  },
  'too many wrong passwords': async ({ visit }) => {
    for (let attempt = 0; attempt < 6; attempt++) {
      await visit.signInLocally('alice', 'wrong')
      await visit.reads('#local-error', attempt < 5 ? 'wrong' : /in 1\u{a0}s/u)
    }
  },
  provider: async ({ visit, page }) => {
    await visit.click('Sign in with OpenID')
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  },
  'provider error': async ({ visit, page }) => {
    await states['provider']?.({ visit, page } as Place)
    await page.goto(new URL('/interaction/unknown', page.url()).href)
  },
  'provider, to sign out': async ({ visit, page }) => {
    await visit.signInWithOpenId('Mira Lindqvist')
    await visit.click('Sign out')
    await page.getByRole('heading', { name: 'Sign out' }).waitFor()
  },
  'sign-in cancelled': async ({ visit }) => {
    await visit.click('Sign in with OpenID')
    await visit.click('Cancel')
    await visit.reads('#notice', 'cancelled')
  },
  'no answer': async ({ visit, page }) => {
    await page.route('**/api/session', async (route) => { await route.abort() })
    await page.reload()
    await visit.reads('#notice', 'does not answer')
  },
  'long name': async ({ visit }) => { await visit.signInWithOpenId('Mira Lindqvist', 'W'.repeat(40)) },
  'nothing sent': async ({ visit }) => { await run(visit) },
  running: async ({ visit, page }) => {
    await run(visit)
    await page.route('**/api/analyze', async () => {})
    await visit.run('Analyze', 'The model is reading')
  },
  analyzed: async ({ visit }) => { await run(visit, 'Analyze') },
  justified: async ({ visit }) => { await run(visit, 'Justify a term') },
  scored: async ({ visit }) => { await run(visit, 'Score a node') },
  'several sent': async ({ visit }) => { await run(visit, 'Analyze', 'Stream') },
  'long answer': async ({ visit, page }) => {
    await run(visit)
    await page.locator('#text').fill(sentences.repeat(5) + 'W'.repeat(300))
    await visit.run('Analyze')
  },
  'long term': async ({ visit, page }) => {
    await run(visit)
    await page.getByText('Justify a term').click()
    await page.locator('[name=leaf]').fill('W'.repeat(200))
    await visit.run('Justify a term')
  },
  'long text': async ({ visit, page }) => {
    await run(visit)
    await page.locator('#text').fill(sentences.repeat(200))
  },
  'too long text': async ({ visit, page }) => {
    await run(visit)
    await page.getByText('Score a node').click()
    await page.locator('#text').fill(sentences.repeat(200))
  },
  'limit reached': async (place) => {
    await run(place.visit)
    await reachLimit(place)
  },
  rejected: async (place) => {
    const { visit, address, pass } = place
    await administer(visit)
    await reachLimit(place)
    for (let request = 0; request < 2; request++) await send(address, 'alice:wonderland', '/api/analyze', { method: 'POST', body: '{"businessText":"Invoices are late."}' })
    await visit.sendAnyway()
    await pass(4, visit)
    await visit.reads('#callers', /3 of 3\s*1[^]*2 of 3/)
  },
  'window over': async (place) => {
    await run(place.visit)
    await reachLimit(place)
    await place.pass(31, place.visit)
    await place.visit.reads('#progress', 'You can run operations again.')
  },
  'session ended': async (place) => {
    await run(place.visit)
    await reachLimit(place)
    await place.visit.loseSession()
    await place.page.locator('#anyway').click()
    await place.visit.reads('#notice', 'Your session has ended. Sign in again.')
    await place.page.clock.resume()
  },
  'network lost': async ({ visit, page }) => {
    await run(visit)
    await page.context().setOffline(true)
    await visit.run('Analyze', 'cannot be reached')
    await page.locator('#interrupted').waitFor()
  },
  'nothing counted': async ({ visit }) => { await administer(visit) },
  'limit raised': async ({ visit }) => { await administer(visit, '5') },
  'limit lowered': async ({ visit }) => {
    await administer(visit)
    await visit.run('Analyze')
    await visit.run('Analyze')
    await visit.change('-5')
    await visit.reads('#callers', 'limit now')
  },
  'largest limits': async ({ visit }) => {
    const largest = String(Number.MAX_SAFE_INTEGER)
    await administer(visit, largest, largest, largest)
    await visit.run('Analyze')
    await visit.reads('#callers', '9,007')
  },
  confirmation: async ({ visit, page }) => {
    await administer(visit)
    await visit.change('0')
    await page.getByRole('dialog').waitFor()
  },
  off: async ({ visit }) => {
    await administer(visit, '0')
    await visit.reads('#unlimited', 'No quota is on')
    await visit.run('Analyze')
  },
  forgotten: async ({ visit, page }) => {
    await administer(visit)
    await visit.run('Analyze')
    await page.getByRole('button', { name: /^Forget/ }).click()
    await visit.reads('#limit-status', 'new window')
  },
  'all quotas': async ({ visit }) => {
    await administer(visit, '3', '100', '2')
    await visit.run('Stream')
    await visit.reads('[data-quota=tokens]', '38 of 100')
  },
  'only tokens': async ({ visit }) => {
    await administer(visit, '0', '60')
    await visit.run('Analyze')
    await visit.reads('[data-quota=tokens]', '38 of 60')
  },
  'tokens used up': async ({ visit }) => {
    await administer(visit, '3', '60')
    for (let request = 0; request < 2; request++) await visit.run('Analyze')
    await visit.reads('#limit-message', '76 of 60 tokens used.')
  },
  'tokens used up, rejected': async (place) => {
    await states['tokens used up']?.(place)
    await place.visit.sendAnyway()
  }
}

// The model's server sends the first sentence of a stream and no more, and closes the connection of any other request.
const statesWithModelServer = (stream: () => ServerResponse | undefined): States => ({
  'model unreachable': async ({ visit }) => {
    await run(visit)
    await visit.run('Analyze', /Please try again in 5\u{a0}s\./u)
  },
  streaming: async ({ visit }) => {
    await run(visit)
    await visit.run('Stream', 'Sentence 1 has arrived.')
  },
  'stream cut off': async ({ visit }) => {
    await run(visit)
    await visit.run('Stream', 'Sentence 1 has arrived.')
    stream()?.destroy()
    await visit.reads('#problem', 'The answer is incomplete')
  },
  'streams used up': async ({ visit, address }) => {
    await administer(visit, '3', undefined, '2')
    const leave = new AbortController()
    visit.page.once('close', () => { leave.abort() })
    for (let other = 0; other < 2; other++) await send(address, 'admin:looking-glass', '/api/analyze-stream?businessText=x', { signal: leave.signal })
    await visit.reads('[data-quota=streams]', '2 of 2 streams open')
    await visit.run('Stream', 'Maximum 2 LLM requests at once. Please try again in 1')
  }
})

t.test('each state of the page is accessible and fits the window', async (t) => {
  const browser = await startBrowser()
  t.teardown(() => browser.close())
  let stream: ServerResponse | undefined
  const server = await OpenAiServer.start((request, response) => {
    stream = response
    if (!request.stream) response.destroy()
    else beginStream(response)
    if (request.stream) streamPart(response, '{"sentences":[{"text":"Invoices are late.","sentiment":0,"entities":[]}')
  })
  t.teardown(() => server.stop())

  for (const [environment, table] of [[{}, states], [{ MODEL_URL: server.url, MODEL_NAME: 'small-model' }, statesWithModelServer(() => stream)]] as const) {
    const started = await startPage(t, environment)
    for (const [state, reach] of Object.entries(table)) {
      await t.test(state, async (t) => {
        const visit = await Visit.begin(browser, started.address)
        const { page } = visit
        await reach({ ...started, visit, page })
        for (const { name, width, height, colorScheme } of variants) {
          await page.setViewportSize({ width, height })
          await page.emulateMedia({ colorScheme })
          t.same(await inaccessible(page), [], name)
          t.ok(await visit.fits(), `${name} fits`)
          await visit.screenshot(`${name}-${state.replaceAll(/\W+/g, '-')}`)
        }
        await page.context().close()
        for (const key of ['per-minute', 'tokens.tokens-per-minute', 'streams.in-flight']) await started.app.changePreference(`rate-limit.${key}`, null)
        // All windows end, and all wrong passwords are forgotten.
        await started.pass(1200)
      })
    }
  }

  t.test('a small screen shows the button, the window and the beginning of the answer together', async (t) => {
    const { address } = await startPage(t)
    const visit = await Visit.begin(browser, address, { width: 390, height: 844 })
    await visit.signIn('alice')
    for (const operation of ['Analyze', 'Stream', 'Score a node']) {
      await visit.run(operation)
      await visit.page.clock.runFor(1000)
      for (const selector of ['#run-button', '#timeline', '#summary', '#answer h3']) await inView(t, visit.page, selector, operation)
    }
    await visit.page.screenshot({ path: `${screenshots}/phone-answer.png` })
    await visit.end(t)
  })
})
