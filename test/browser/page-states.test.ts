// Each state of the example's page in a real browser.
import type { ServerResponse } from 'node:http'
import t from 'tap'
import { screenshots, startBrowser } from '../support/browser.js'
import { beginStream, OpenAiServer, streamPart } from '../support/openai-server.js'
import { checkStates, type Place, type States } from '../support/page-states.js'
import { startPage, Visit } from '../support/page-visit.js'

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
    await run(place.visit)
    await reachLimit(place)
    await place.visit.sendAnyway()
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

  await checkStates(t, browser, states)
  await checkStates(t, browser, statesWithModelServer(() => stream), { MODEL_URL: server.url, MODEL_NAME: 'small-model' })

  t.test('a small screen shows the button, the window and the beginning of the answer together', async (t) => {
    const { address } = await startPage(t)
    const visit = await Visit.begin(browser, address, { width: 390, height: 844 })
    await visit.signIn('alice')
    for (const operation of ['Analyze', 'Stream', 'Score a node']) {
      await visit.run(operation)
      await visit.page.clock.runFor(1000)
      for (const selector of ['#run-button', '#timeline', '#summary', '#answer h3']) {
        const box = await visit.page.locator(selector).boundingBox()
        t.ok(box !== null && box.y >= 0 && box.y + box.height <= 844, `${operation}: ${selector} ${JSON.stringify(box)}`)
      }
    }
    await visit.page.screenshot({ path: `${screenshots}/phone-answer.png` })
    await visit.end(t)
  })
})
