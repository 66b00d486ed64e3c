// Each state of the example's page for an administrator, and of the quotas that an administrator switches on.
import t from 'tap'
import { checkStates, inTurn, type Place, reachCap, reachLimit } from '../support/page-states.js'

// Signs in, changes the limits if any are given, and runs operations.
const administrator = ([requests, tokens, streams]: readonly (string | undefined)[] = [], ...operations: string[]) => async ({ visit }: Place): Promise<void> => {
  await visit.signIn('admin')
  await visit.reads('#callers-caption', /\d/)
  if (requests !== undefined) await visit.change(requests, tokens, streams)
  if (requests === '0') await visit.click('Switch off')
  for (const operation of operations) await visit.run(operation)
}

const reads = (selector: string, expected: RegExp | string) => async ({ visit }: Place): Promise<string> => await visit.reads(selector, expected)

async function send (address: string, user: string, path: string, request: RequestInit = {}): Promise<Response> {
  return await fetch(address + path, { ...request, headers: { authorization: `Basic ${Buffer.from(user).toString('base64')}`, 'content-type': 'application/json' } })
}

const aliceSendsTwo = async ({ address }: Place): Promise<void> => {
  for (let request = 0; request < 2; request++) await send(address, 'alice:wonderland', '/api/analyze', { method: 'POST', body: '{"businessText":"Invoices are late."}' })
}

// The streams of another program of the administrator, until the page is closed.
const openTwoStreams = async ({ address, page }: Place): Promise<void> => {
  const leave = new AbortController()
  page.once('close', () => { leave.abort() })
  for (let stream = 0; stream < 2; stream++) await send(address, 'admin:looking-glass', '/api/analyze-stream?businessText=x', { signal: leave.signal })
}

const largest = String(Number.MAX_SAFE_INTEGER)

t.test('each state of the page for an administrator is accessible and fits the window', async (t) => {
  await checkStates(t, {
    // The pictures of the README.
    administrator: inTurn(administrator(), reachLimit, aliceSendsTwo, ({ visit }) => visit.sendAnyway(), ({ visit, pass }) => pass(4, visit), reads('#callers', /3 of 3\s*1[^]*2 of 3/)),
    'nothing counted': administrator(),
    'overflow in use': inTurn(reachCap, administrator([], 'Analyze'), reads('#callers', /Overflow, shared by all others\s*1 of 3/)),
    'limit lowered': inTurn(administrator([], 'Analyze', 'Analyze'), ({ visit }) => visit.change('-5'), reads('#callers', 'limit now')),
    'largest limits': inTurn(administrator([largest, largest, largest], 'Analyze'), reads('#callers', '9,007')),
    confirmation: inTurn(administrator(), ({ visit }) => visit.change('0'), ({ page }) => page.getByRole('dialog').waitFor()),
    off: inTurn(administrator(['0']), reads('#unlimited', 'No quota is on'), ({ visit }) => visit.run('Analyze')),
    forgotten: inTurn(administrator([], 'Analyze'), ({ page }) => page.getByRole('button', { name: /^Forget/ }).click(), reads('#limit-status', 'new window')),
    'all quotas': inTurn(administrator(['3', '100', '2'], 'Stream'), reads('[data-quota=tokens]', '38 of 100')),
    'only tokens': inTurn(administrator(['0', '60'], 'Analyze'), reads('[data-quota=tokens]', '38 of 60')),
    'tokens used up': inTurn(administrator(['3', '60'], 'Analyze', 'Analyze'), reads('#limit-message', '76 of 60 tokens used.'))
  }, {
    'streams used up': inTurn(administrator(['3', undefined, '2']), openTwoStreams, reads('[data-quota=streams]', '2 of 2 streams open'), ({ visit }) => visit.run('Stream', 'Maximum 2 LLM requests at once. Please try again in 1'))
  })
})
