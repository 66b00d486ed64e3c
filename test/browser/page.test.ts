// The example's page in a real browser: each way to sign in, use up the quota, reach the limit, wait and continue; and the
// administrator's view. The minute of waiting passes on the virtual clocks of the service and of the browser.
import t from 'tap'
import { startBrowser } from '../support/browser.js'
import { CuttingProxy } from '../support/cutting-proxy.js'
import { beginStream, OpenAiServer, streamPart } from '../support/openai-server.js'
import { RedisServer } from '../support/redis-server.js'
import { startPage, Visit } from '../support/page-visit.js'

t.test('the page works in a real browser', async (t) => {
  const browser = await startBrowser()
  t.teardown(() => browser.close())

  for (const store of ['in the process', 'shared']) {
    t.test(`the page works with a store that is ${store}`, async (t) => {
      const server = store === 'shared' ? await RedisServer.start() : undefined
      const { address, pass, minutePasses } = await startPage(t, server?.url)
      t.teardown(() => server?.stop())

      await t.test('a visitor who is not signed in is answered with 401', async (t) => {
        const visit = await Visit.begin(browser, address)
        await visit.run('Analyze', 'Authentication is required for this LLM operation.')
        t.notOk(await visit.page.locator('#limit-reached').isVisible(), 'the visitor does not have to wait')
        await visit.reads('h1', 'A quota for model calls')
        await visit.signInLocally('alice', 'wrong')
        await visit.reads('#local-error', 'The user name or the password is wrong.')
        await visit.end(t)
      })

      await t.test('a user uses up the quota, is rejected, waits, and continues', async (t) => {
        const visit = await Visit.begin(browser, address)
        await visit.signInLocally('alice', 'wonderland')
        await visit.reads('#who', /Signed in as alice \(local account\), counted as fe8a67d0/)
        await visit.reads('#summary', 'No window is open: the next request opens one. The limit is 3 a minute.')
        await visit.run('Analyze')
        await visit.reads('#answer', 'Analysis')
        await visit.run('Justify a term')
        await visit.reads('#answer', 'Invoicing applies')
        await visit.run('Score a node')
        await visit.reads('#answer', 'Human resources (HR)')
        await visit.reads('#summary', /^3 of 3 admitted, 0 rejected; the window ends in (60|59)\ss\.$/)

        await visit.reads('#limit-message', 'Limit reached: 3 of 3 requests used.')
        await visit.sendAnyway('Rate limit exceeded. Maximum 3 LLM requests per minute. Please wait.')
        const seconds = Number(/\d+/.exec(await visit.reads('#run-button', /^Run again in \d+\ss$/))?.[0])
        t.ok(seconds > 50 && seconds <= 60, `${seconds} s to wait`)
        const button = visit.page.getByRole('button', { name: 'Run again' })
        t.equal(await button.getAttribute('aria-disabled'), 'true')
        await visit.reads('#summary', '3 of 3 admitted, 1 rejected')
        t.equal(await visit.page.locator('#timeline circle.admitted').count(), 3)
        t.equal(await visit.page.locator('#timeline path.rejected').count(), 1)
        t.equal(await visit.page.locator('#timeline line.limit').count(), 1)
        await button.press('Enter')
        await pass(2, visit)
        t.match(await visit.reads('#summary', '3 of 3 admitted'), '1 rejected', 'the button does not send a request yet')
        const later = Number(/\d+/.exec(await visit.reads('#run-button', /\ss$/))?.[0])
        t.ok(later < seconds, `${later} s to wait`)

        await minutePasses(visit)
        await visit.reads('#progress', 'You can run operations again.')
        t.equal(await visit.page.getByRole('button', { name: 'Run', exact: true }).getAttribute('aria-disabled'), null)
        t.notOk(await visit.page.locator('#limit-reached').isVisible())
        await visit.run('Analyze')
        await visit.reads('#summary', '1 of 3 admitted, 0 rejected')
        await visit.page.getByRole('button', { name: 'Sign out' }).click()
        await visit.reads('#who', 'Not signed in')
        await visit.end(t)
      })

      await t.test('a user signs in with OpenID Connect, watches the stream, and signs out of the service and of the provider', async (t) => {
        const visit = await Visit.begin(browser, address)
        await visit.signInWithOpenId('Mira Lindqvist')
        await visit.reads('#who', /Signed in as mira \(OpenID Connect\)/)
        await visit.page.evaluate(`{
          const progress = document.getElementById('progress')
          globalThis.seen = []
          new MutationObserver(() => globalThis.seen.push(progress.textContent)).observe(progress, { childList: true })
        }`)
        await visit.run('Stream')
        t.equal(await visit.page.locator('#answer li').count(), 4)
        const seen = await visit.page.evaluate<string[]>('globalThis.seen')
        t.same(seen.filter((said) => /Sentence/.test(said)).at(0), 'Sentence 1 has arrived.', 'the sentences arrive one after another')
        for (let request = 0; request < 2; request++) await visit.run('Stream')
        await visit.sendAnyway('Maximum 3')

        await visit.page.getByRole('button', { name: 'Sign out' }).click()
        await visit.page.getByRole('button', { name: 'Sign out' }).click()
        await visit.reads('#who', 'Not signed in')
        await visit.page.getByRole('link', { name: 'Sign in with OpenID' }).click()
        await visit.page.getByRole('button', { name: 'Cancel' }).click()
        await visit.reads('#notice', 'The OpenID sign-in failed or was cancelled.')
        await visit.end(t)
      })

      await t.test('an administrator sees the digests of all callers, and changes the limit', async (t) => {
        const [administrator, alice] = [await Visit.begin(browser, address), await Visit.begin(browser, address)]
        await minutePasses(administrator, alice)
        await administrator.signInLocally('admin', 'looking-glass')
        await administrator.reads('#callers-caption', 'Callers with a counter')
        await alice.signInLocally('alice', 'wonderland')
        await alice.reads('#who', /^Signed in as/)
        for (let request = 0; request < 3; request++) await alice.run('Analyze')
        await alice.sendAnyway()
        await administrator.reads('#callers', /fe8a67d0\s*3 of 3\s*1\s*\d+\ss/)
        await administrator.reads('#callers', /Overflow, shared by all others\s*not in use/)
        t.notMatch(await administrator.page.locator('#administration').innerText(), /alice|mira/)
        t.notOk(await alice.page.locator('#administration').isVisible(), 'only administrators see the administration')

        await administrator.reads('#requests-limit-in-force', 'In force: 3, as configured')
        await administrator.change('5')
        await administrator.reads('#limit-status', 'The limits are changed.')
        await administrator.reads('#requests-limit-in-force', /^In force: 5$/)
        await alice.page.locator('#timeline .limit-label').filter({ hasText: 'limit 5' }).waitFor()
        await alice.reads('#run-button', /^Run$/)
        t.notOk(await alice.page.locator('#limit-reached').isVisible(), 'a raised limit enables the button immediately')
        await alice.page.reload()
        await alice.reads('#summary', '3 of 5 admitted, 1 rejected')
        await alice.run('Analyze')
        await administrator.reads('#callers', /fe8a67d0\s*4 of 5/)

        await administrator.change('2')
        await alice.reads('#summary', '4 admitted; the limit is 2 now, 1 rejected')
        await administrator.reads('#callers', /fe8a67d0\s*4, limit now 2/)
        await alice.reads('#run-button', /^Run again in \d+\ss$/)
        await administrator.change('-5')
        await administrator.reads('#requests-limit-in-force', 'In force: 1 (set to −5)')
        await administrator.page.reload()
        await administrator.reads('#requests-limit-in-force', 'In force: 1 (set to −5)')
        await alice.reads('h1', '1 model call a minute')

        await administrator.page.getByRole('button', { name: 'Forget fe8a67d0' }).click()
        await administrator.reads('#limit-status', 'The caller fe8a67d0 starts with a new window.')
        t.equal(await administrator.page.evaluate('document.activeElement.id'), 'administration-title', 'no other caller is in the table, so the focus moves to its title')
        await alice.reads('#summary', 'No window is open: the next request opens one. The limit is 1 a minute.')
        await alice.reads('#run-button', /^Run$/)

        await administrator.change(String(Number.MAX_SAFE_INTEGER))
        await alice.reads('#summary', 'The limit is 9,007,199,254,740,991 a minute.')
        await alice.page.locator('#timeline .limit-label').filter({ hasText: 'limit 9007.2T, above this scale' }).waitFor()
        t.same((await alice.page.locator('#timeline text').allTextContents()).slice(0, 5), ['0', '1', '2', '3', '4'], 'the scale of the axis depends on the requests')

        await administrator.change('0')
        await administrator.page.getByRole('dialog', { name: 'Switch a quota off?' }).getByRole('button', { name: 'Cancel' }).click()
        await administrator.reads('#requests-limit-in-force', '9,007,199,254,740,991')
        await administrator.change('0')
        await administrator.page.getByRole('dialog').getByRole('button', { name: 'Switch off' }).click()
        await alice.reads('#unlimited', 'No quota is on')
        await alice.reads('h1', 'Model calls without a limit')
        await alice.reads('#intro', 'Each caller can run them as often as they like.')
        await administrator.page.getByRole('button', { name: 'Use the configured limits' }).click()
        await administrator.reads('#limit-status', 'The configured limits apply again.')
        await alice.page.locator('#timeline .limit-label').filter({ hasText: 'limit 3' }).waitFor()
        await alice.end(t)
        await administrator.end(t)
      })
    })
  }

  t.test('the page can be used with the keyboard alone', async (t) => {
    const { address } = await startPage(t)
    const { page, ...visit } = await Visit.begin(browser, address)
    const focus = async (): Promise<string> => await page.evaluate<string>('document.activeElement.textContent.trim() || document.activeElement.name')
    await page.keyboard.press('Tab')
    t.equal(await focus(), 'Skip to the operations')
    await page.keyboard.press('Tab')
    t.equal(await focus(), 'username')
    await page.keyboard.type('alice')
    await page.keyboard.press('Tab')
    await page.keyboard.type('wonderland')
    await page.keyboard.press('Enter')
    await page.locator('#who').filter({ hasText: 'Signed in as alice' }).waitFor()
    t.equal(await focus(), 'Sign out', 'the focus moves to the next control')
    await page.keyboard.press('Tab')
    await page.keyboard.press('ArrowRight')
    t.equal(await page.locator('#address').innerText(), 'POST /api/justify-leaf')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Tab')
    t.equal(await focus(), 'leaf')
    await page.keyboard.press('Enter')
    await page.locator('#answer').filter({ hasText: 'Invoicing applies' }).waitFor()
    t.same(visit.complaints, [])
  })

  t.test('the page reports that a session has ended', async (t) => {
    const { address } = await startPage(t)
    const visit = await Visit.begin(browser, address)
    await visit.run('Analyze', 'Authentication is required')
    await visit.signInLocally('alice', 'wonderland')
    await visit.reads('#who', 'Signed in as alice')
    t.notOk(await visit.page.locator('#problem').isVisible(), 'the message for visitors who are not signed in disappears')
    await visit.loseSession()
    await visit.page.locator('#run-button').click()
    await visit.reads('#notice', 'Your session has ended. Sign in again.')
    await visit.page.clock.resume()
    await visit.reads('#who', 'Not signed in')
    t.notOk(await visit.page.locator('#problem').isVisible())
    await visit.signInLocally('alice', 'wonderland')
    await visit.reads('#who', 'Signed in as alice')
    t.notOk(await visit.page.locator('#notice').isVisible())

    const other = await visit.page.context().newPage()
    await other.goto(address)
    await other.getByRole('button', { name: 'Sign out' }).click()
    await other.getByText('Not signed in').waitFor()
    await visit.page.clock.runFor(5000)
    await visit.reads('#notice', 'Your session has ended. Sign in again.')
    await visit.end(t)
  })

  t.test('the page reports a session that cannot be read, and offers a retry', async (t) => {
    const { address } = await startPage(t)
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.route('**/api/session', async (route) => { await route.abort() })
    await page.goto(address)
    await page.getByText('The service does not answer, so the page cannot show who is signed in.').waitFor()
    await page.unroute('**/api/session')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('Not signed in').waitFor()
    t.notOk(await page.locator('#notice').isVisible())
    await context.close()
  })

  t.test('the button shows the state of the window', async (t) => {
    const { address, minutePasses } = await startPage(t)
    const [one, other] = [await Visit.begin(browser, address), await Visit.begin(browser, address)]
    for (const visit of [one, other]) await visit.signInLocally('alice', 'wonderland')
    await one.reads('#summary', 'No window is open')
    await one.page.locator('#run-button').dblclick()
    await one.reads('#progress', 'Done.')
    await one.reads('#summary', '1 of 3 admitted, 0 rejected')
    for (let request = 0; request < 2; request++) await one.run('Analyze')
    await one.sendAnyway()
    await one.page.reload()
    for (const visit of [one, other]) {
      const button = await visit.reads('#run-button', /^Run again in \d+\ss$/)
      const seconds = /\d+\ss/.exec(button)?.[0]
      t.ok(seconds)
      t.match(await visit.page.locator('#limit-reached').innerText(), 'Limit reached: 3 of 3 requests used.')
      const [inButton, inSummary] = await visit.page.evaluate<string[]>('["run-button", "summary"].map((id) => /\\d+\\ss/.exec(document.getElementById(id).textContent)[0])')
      t.equal(inSummary, inButton, 'both countdowns are equal')
    }
    await minutePasses(one, other)
    await one.reads('#run-button', /^Run$/)
    await one.run('Justify a term')
    await one.page.getByText('Score a node', { exact: true }).click()
    t.notOk(await one.page.locator('#answer-card').isVisible(), 'another operation clears the answer')
    for (const visit of [one, other]) await visit.end(t)
  })

  t.test('a stream that is cut off is reported as incomplete, and the part that arrived remains', async (t) => {
    // The model's server never sends the second sentence.
    const server = await OpenAiServer.start((_request, response) => {
      beginStream(response)
      streamPart(response, '{"sentences":[{"text":"Invoices are late.","sentiment":0,"entities":[]}')
    })
    Object.assign(process.env, { MODEL_URL: server.url, MODEL_NAME: 'small-model' })
    const { address } = await startPage(t).finally(() => { for (const name of ['MODEL_URL', 'MODEL_NAME']) Reflect.deleteProperty(process.env, name) })
    const proxy = await CuttingProxy.start(Number(new URL(address).port))
    for (const [cut, reason, origin] of [
      [async () => { await proxy.stop() }, 'The connection was cut.', `http://127.0.0.1:${proxy.port}`],
      [async () => { await server.stop() }, 'The model did not answer.', address]
    ] as const) {
      const visit = await Visit.begin(browser, origin)
      await visit.signInLocally('alice', 'wonderland')
      await visit.reads('#summary', /\d/)
      await visit.page.getByText('Stream', { exact: true }).click()
      await visit.page.locator('#run-button').click()
      await visit.reads('#answer', 'Invoices are late.')
      await cut()
      const problem = await visit.reads('#problem', reason)
      t.match(problem, 'The answer is incomplete: it ended after one sentence.')
      t.match(await visit.page.locator('#answer').innerText(), 'Invoices are late.')
      await visit.page.context().close()
    }
  })

  t.test('a text that is too long for a URL is not sent', async (t) => {
    const { address } = await startPage(t)
    const visit = await Visit.begin(browser, address)
    await visit.signInLocally('alice', 'wonderland')
    await visit.reads('#summary', 'No window is open')
    await visit.page.locator('#text').fill('Zoë 🦊 '.repeat(1000))
    await visit.reads('#text-count', '7,000 of 20,000 characters')
    await visit.page.getByText('Score a node', { exact: true }).click()
    await visit.reads('#text-count', '22,000 of 7,500 bytes, as sent in the address')
    await visit.page.locator('#run-button').click()
    t.equal(await visit.page.evaluate('document.getElementById("text").validationMessage'), 'The text is 14,500 too long for this operation. Shorten it.')
    t.match(await visit.reads('#summary', 'No window is open'), 'No window', 'no request was counted')
    await visit.page.locator('#text').fill('Zoë 🦊 '.repeat(340))
    await visit.run('Score a node')
    await visit.page.locator('#text').fill('  ')
    t.equal(await visit.page.evaluate('document.getElementById("text").validationMessage'), 'Enter a text.')
    await visit.end(t)
  })

  t.test('the page can load and run only content of the service', async (t) => {
    const { address } = await startPage(t)
    const { headers } = await fetch(address)
    t.equal(headers.get('content-security-policy'), 'default-src \'none\';script-src \'self\';style-src \'self\';img-src \'self\';connect-src \'self\';form-action \'self\';base-uri \'none\';frame-ancestors \'none\';require-trusted-types-for \'script\'')
    const visit = await Visit.begin(browser, address)
    await visit.page.evaluate(`{
      const image = document.createElement('img')
      image.src = 'http://localhost:1/elsewhere.png'
      const script = document.createElement('script')
      document.body.append(image, script)
      try { script.text = 'globalThis.ran = true' } catch {}
      const another = document.createElement('div')
      try { another.innerHTML = '<b>injected</b>' } catch {}
      document.body.append(another)
    }`)
    t.equal(await visit.page.evaluate('globalThis.ran'), undefined)
    t.equal(await visit.page.locator('b', { hasText: 'injected' }).count(), 0)
    t.equal(visit.complaints.filter((complaint) => /img-src|TrustedHTML|TrustedScript/.test(complaint)).length, 3, visit.complaints.join('\n'))
    await visit.page.context().close()
  })
})
