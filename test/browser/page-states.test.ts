// Each state of the example's page for a user who is signed in.
import t from 'tap'
import { checkStates, inTurn, type Place, reachCap, reachLimit } from '../support/page-states.js'
import { startPage } from '../support/page-visit.js'

const sentences = 'Our invoices went out late in March 2025. Customers in Berlin complain loudly about it! '

const signedIn = (...operations: string[]) => async ({ visit }: Place): Promise<void> => {
  await visit.signIn('alice')
  for (const operation of operations) await visit.run(operation)
}

const limited = async (place: Place): Promise<void> => {
  await place.visit.signIn('alice')
  await reachLimit(place)
}

// Fills in a field of an operation.
const filled = (operation: string, field: string, text: string) => async ({ visit, page }: Place): Promise<void> => {
  await visit.signIn('alice')
  await page.getByText(operation, { exact: true }).click()
  await page.locator(`[name=${field}]`).fill(text)
}

const streaming = inTurn(signedIn(), ({ visit }) => visit.run('Stream', 'Sentence 1 has arrived.'))

// The part that has arrived stays visible.
const incomplete = (reason: string) => inTurn(
  ({ visit }) => visit.reads('#problem', `${reason} The answer is incomplete: it ended after 1 sentence.`),
  ({ visit }) => visit.reads('#answer', 'Invoices are late.'))

t.test('each state of the page is accessible and fits the window', async (t) => {
  await checkStates(t, {
    'nothing sent': signedIn(),
    running: inTurn(signedIn(), ({ page }) => page.route('**/api/analyze', () => {}), ({ visit }) => visit.run('Analyze', 'The model is reading')),
    analyzed: signedIn('Analyze'),
    justified: signedIn('Justify a term'),
    scored: signedIn('Score a node'),
    'several sent': signedIn('Analyze', 'Stream'),
    'long text': filled('Analyze', 'businessText', sentences.repeat(200)),
    'too long text': filled('Score a node', 'businessText', sentences.repeat(200)),
    'long answer': inTurn(filled('Analyze', 'businessText', sentences.repeat(5) + 'W'.repeat(300)), ({ visit }) => visit.run('Analyze')),
    'long term': inTurn(filled('Justify a term', 'leaf', 'W'.repeat(200)), ({ visit }) => visit.run('Justify a term')),
    'limit reached': limited,
    'shared counter': inTurn(reachCap, limited, ({ visit }) => visit.reads('main', '3 of 3 admitted, 0 rejected, shared with others')),
    rejected: inTurn(limited, ({ visit }) => visit.sendAnyway()),
    'window over': inTurn(limited, ({ visit, pass }) => pass(31, visit), ({ visit }) => visit.reads('#progress', 'You can run operations again.')),
    'session ended': inTurn(limited, ({ visit }) => visit.loseSession(), ({ page }) => page.locator('#anyway').click(), ({ visit }) => visit.reads('#notice', 'Your session has ended.')),
    'network lost': inTurn(signedIn(), ({ page }) => page.context().setOffline(true), ({ visit }) => visit.run('Analyze', 'cannot be reached'), ({ page }) => page.locator('#interrupted').waitFor())
  }, {
    'model unreachable': inTurn(signedIn(), ({ visit }) => visit.run('Analyze', /Please try again in 5\u{a0}s\./u)),
    streaming,
    'stream cut off': inTurn(streaming, async ({ app }) => { app.server.closeAllConnections() }, incomplete('The connection was cut.')),
    'stream ended by the model': inTurn(streaming, async ({ stopModel }) => { stopModel() }, incomplete('The model did not answer. Please try again.'))
  })
})

t.test('a small screen shows the button, the window and the beginning of the answer together', async (t) => {
  const visit = await (await startPage(t)).begin('/', { width: 390, height: 844 })
  await visit.signIn('alice')
  for (const operation of ['Analyze', 'Stream', 'Score a node']) {
    await visit.run(operation)
    await visit.page.clock.runFor(1000)
    for (const selector of ['#run-button', '#timeline', '#summary', '#answer h3']) {
      const box = await visit.page.locator(selector).boundingBox()
      t.ok(box !== null && box.y >= 0 && box.y + box.height <= 844, `${operation}: ${selector} ${JSON.stringify(box)}`)
    }
  }
  await visit.end(t)
})
