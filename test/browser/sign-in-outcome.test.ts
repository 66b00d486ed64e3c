// The outcome of an OpenID sign-in is in the query of the page's URL. It is shown once, and anything else in its place is not shown.
import t from 'tap'
import { startBrowser } from '../support/browser.js'
import { startPage, Visit } from '../support/page-visit.js'

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
