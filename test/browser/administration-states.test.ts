// Each state of the example's page for an administrator, and of the quotas that an administrator switches on.
import t from 'tap'
import { startBrowser } from '../support/browser.js'
import { beginStream, OpenAiServer, streamPart } from '../support/openai-server.js'
import { checkStates, type States } from '../support/page-states.js'
import type { Visit } from '../support/page-visit.js'

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
  'rejected, as administrator': async ({ visit, address, pass }) => {
    await administer(visit)
    for (const seconds of [9, 14, 6]) {
      await visit.run('Analyze')
      await pass(seconds, visit)
    }
    for (let request = 0; request < 2; request++) await send(address, 'alice:wonderland', '/api/analyze', { method: 'POST', body: '{"businessText":"Invoices are late."}' })
    await visit.sendAnyway()
    await pass(4, visit)
    await visit.reads('#callers', /3 of 3\s*1[^]*2 of 3/)
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

const statesWithModelServer: States = {
  'streams used up': async ({ visit, address }) => {
    await administer(visit, '3', undefined, '2')
    const leave = new AbortController()
    visit.page.once('close', () => { leave.abort() })
    for (let other = 0; other < 2; other++) await send(address, 'admin:looking-glass', '/api/analyze-stream?businessText=x', { signal: leave.signal })
    await visit.reads('[data-quota=streams]', '2 of 2 streams open')
    await visit.run('Stream', 'Maximum 2 LLM requests at once. Please try again in 1')
  }
}

t.test('each state of the page for an administrator is accessible and fits the window', async (t) => {
  const browser = await startBrowser()
  t.teardown(() => browser.close())
  // Never sends the second sentence.
  const server = await OpenAiServer.start((_request, response) => {
    beginStream(response)
    streamPart(response, '{"sentences":[{"text":"Invoices are late.","sentiment":0,"entities":[]}')
  })
  t.teardown(() => server.stop())
  await checkStates(t, browser, states)
  await checkStates(t, browser, statesWithModelServer, { MODEL_URL: server.url, MODEL_NAME: 'small-model' })
})
