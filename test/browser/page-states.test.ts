// Each state of the example's page in a real browser, in both colour schemes, on a desktop and on a phone: accessible, and never wider
// than the window.
import t from 'tap'
import { inaccessible, screenshots, startBrowser } from '../support/browser.js'
import { inView, startPage, Visit } from '../support/page-visit.js'

t.test('each state of the page is accessible and fits the window', async (t) => {
  const browser = await startBrowser()
  t.teardown(() => browser.close())

  for (const [name, options] of Object.entries({ light: {}, dark: { colorScheme: 'dark' }, phone: { width: 390 }, 'phone-dark': { width: 390, colorScheme: 'dark' } } as const)) {
    t.test(`each state of the page is accessible and fits the window in the variant ${name}`, async (t) => {
      const { address, pass } = await startPage(t)
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
      await visit.sendAnyway()
      await visit.reads('#callers', /3 of 3\s*1/)
      await pass(4, visit)
      t.same(await inaccessible(visit.page), [], 'limit reached')
      t.ok(await fits())
      await visit.screenshot(`${name}-rejected`)
      await visit.page.locator('#requests-limit').fill('0')
      await visit.page.getByRole('button', { name: 'Change the limits' }).click()
      t.same(await inaccessible(visit.page), [], 'asked for a confirmation')
      await visit.page.getByRole('button', { name: 'Cancel' }).click()
      await visit.loseSession()
      await visit.page.locator('#anyway').click()
      await visit.reads('#notice', 'Your session has ended. Sign in again.')
      await visit.page.clock.resume()
      t.same(await inaccessible(visit.page), [], 'expired')
      await visit.screenshot(`${name}-expired`)
      await visit.end(t)
    })
  }

  t.test('a small screen shows the button, the window and the beginning of the answer together', async (t) => {
    const { address } = await startPage(t)
    const visit = await Visit.begin(browser, address, { width: 390, height: 844 })
    await visit.signInLocally('alice', 'wonderland')
    await visit.reads('#who', /^Signed in/)
    for (const operation of ['Analyze', 'Stream', 'Score a node']) {
      await visit.run(operation)
      await visit.page.clock.runFor(1000)
      for (const selector of ['#run-button', '#timeline', '#summary', '#answer h3']) await inView(t, visit.page, selector, operation)
    }
    await visit.page.screenshot({ path: `${screenshots}/phone-answer.png` })
    await visit.end(t)
  })
})
