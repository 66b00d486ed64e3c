// Each state of the example's page for a user who is not signed in, and of the sign-in.
import t from 'tap'
import { startBrowser } from '../support/browser.js'
import { checkStates, inTurn, type Place } from '../support/page-states.js'
import { startPage, Visit } from '../support/page-visit.js'

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

t.test('each state of the sign-in is accessible and fits the window', async (t) => {
  await checkStates(t, {
    'signed out': async () => {},
    'without a caller': ({ visit }) => visit.run('Analyze', 'Authentication is required'),
    'wrong password': wrongPassword(1, /wrong/),
    'too many wrong passwords': wrongPassword(6, /in 1\u{a0}s/u),
    provider: atProvider,
    'provider error': inTurn(atProvider, ({ page }) => page.goto(new URL('/interaction/unknown', page.url()).href)),
    'provider, to sign out': inTurn(({ visit }) => visit.signInWithOpenId('Mira Lindqvist'), ({ visit }) => visit.click('Sign out'), ({ page }) => page.getByRole('heading', { name: 'Sign out' }).waitFor()),
    'sign-in cancelled': inTurn(atProvider, ({ visit }) => visit.click('Cancel'), ({ visit }) => visit.reads('#notice', 'cancelled')),
    'no answer': inTurn(({ page }) => page.route('**/api/session', (route) => route.abort()), ({ page }) => page.reload(), ({ visit }) => visit.reads('#notice', 'does not answer')),
    'long name': ({ visit }) => visit.signInWithOpenId('Mira Lindqvist', 'W'.repeat(40))
  })
})

// The outcome of an OpenID sign-in is in the query of the page's URL.
t.test('the page shows the outcome of a sign-in once, and no other text of the URL', async (t) => {
  const browser = await startBrowser()
  t.teardown(() => browser.close())
  const { address } = await startPage(t)
  for (const [outcome, message] of Object.entries({ failed: 'The OpenID sign-in failed or was cancelled.', unavailable: 'The OpenID provider cannot be reached.' })) {
    const visit = await Visit.begin(browser, `${address}/?sign-in=${outcome}`)
    await visit.reads('#notice', message)
    t.equal(visit.page.url(), `${address}/`)
    await visit.page.reload()
    await visit.reads('#who', 'Not signed in')
    t.notOk(await visit.page.locator('#notice').isVisible())
    await visit.end(t)
  }
  for (const outcome of ['constructor', '__proto__', 'toString', 'refused', '']) {
    const visit = await Visit.begin(browser, `${address}/?sign-in=${outcome}`)
    t.notOk(await visit.page.locator('#notice').isVisible(), outcome)
    await visit.end(t)
  }
})
