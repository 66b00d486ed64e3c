// Each state of the example's page for a user who is not signed in, and of the sign-in.
import t from 'tap'
import { checkStates, inTurn, type Place } from '../support/page-states.js'
import { startPage } from '../support/page-visit.js'

const wrongPassword = (times: number, expected: RegExp) => async ({ visit }: Place): Promise<void> => {
  for (let time = 1; time <= times; time++) {
    await visit.signInLocally('alice', 'wrong')
    await visit.reads('#local-error', time < times ? 'wrong' : expected)
  }
}

const atProvider = async ({ visit, page }: Place): Promise<void> => {
  await visit.click('Sign in with OpenID')
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
}

const noAnswer = inTurn(
  ({ page }) => page.route('**/api/session', (route) => route.abort()),
  ({ page }) => page.reload(),
  ({ visit }) => visit.reads('#notice', 'The service does not answer, so the page cannot show who is signed in.'),
  ({ visit }) => visit.click('Try again'),
  ({ page }) => page.locator('#retry:focus').waitFor())

t.test('each state of the sign-in is accessible and fits the window', async (t) => {
  await checkStates(t, {
    'signed out': async () => {},
    'without a caller': ({ visit }) => visit.run('Analyze', 'Authentication is required'),
    'wrong password': wrongPassword(1, /The user name or the password is wrong\./),
    'too many wrong passwords': wrongPassword(6, /in 1\u{a0}s/u),
    provider: atProvider,
    'provider error': inTurn(atProvider, ({ page }) => page.goto(new URL('/interaction/unknown', page.url()).href)),
    'provider, to sign out': inTurn(({ visit }) => visit.signInWithOpenId('Mira Lindqvist'), ({ visit }) => visit.click('Sign out'), ({ page }) => page.getByRole('heading', { name: 'Sign out' }).waitFor()),
    'sign-in cancelled': inTurn(atProvider, ({ visit }) => visit.click('Cancel'), ({ visit }) => visit.reads('#notice', 'cancelled')),
    'no answer': noAnswer,
    'answer after a retry': inTurn(noAnswer, ({ page }) => page.unroute('**/api/session'), ({ visit }) => visit.click('Try again'), ({ visit }) => visit.reads('#who', 'Not signed in'), ({ page }) => page.locator('#notice').waitFor({ state: 'hidden' })),
    'long name': ({ visit }) => visit.signInWithOpenId('Mira Lindqvist', 'W'.repeat(40))
  })
})

t.test('the page shows the outcome of a sign-in once, and no other text of the URL', async (t) => {
  const { address, begin } = await startPage(t)
  for (const [outcome, message] of Object.entries({ failed: 'The OpenID sign-in failed or was cancelled.', unavailable: 'The OpenID provider cannot be reached.' })) {
    const visit = await begin(`/?sign-in=${outcome}`)
    await visit.reads('#notice', message)
    t.equal(visit.page.url(), `${address}/`)
    await visit.page.reload()
    await visit.reads('#who', 'Not signed in')
    t.notOk(await visit.shows('#notice'))
    await visit.end(t)
  }
  for (const outcome of ['constructor', '__proto__', 'refused', '']) {
    const visit = await begin(`/?sign-in=${outcome}`)
    t.notOk(await visit.shows('#notice'), outcome)
    await visit.end(t)
  }
})
