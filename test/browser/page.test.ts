// The example's page in a real browser: each way to sign in, use up the quota, reach the limit, wait and continue; and the
// administrator's view. The minute of waiting passes on the virtual clocks of the service and of the browser.
import t from 'tap'
import { startBrowser } from '../support/browser.js'
import { FaultyProxy } from '../support/faulty-proxy.js'
import { beginStream, OpenAiServer, streamPart } from '../support/openai-server.js'
import { RedisServer } from '../support/redis-server.js'
import { startPage, Visit } from '../support/page-visit.js'

t.test('the page works in a real browser', async (t) => {
  const browser = await startBrowser()
  t.teardown(() => browser.close())

  for (const store of ['in the process', 'shared']) {
    t.test(`the page works with a store that is ${store}`, async (t) => {
      const server = store === 'shared' ? await RedisServer.start() : undefined
      const { address, pass, minutePasses } = await startPage(t, { REDIS_URL: server?.url ?? '' })
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
        await visit.signIn('alice')
        await visit.reads('#who', /Signed in as alice \(local account\), counted as fe8a67d0/)
        await visit.reads('#summary', 'No window is open: the next request opens one.')
        await visit.run('Analyze')
        await visit.reads('#answer', 'Analysis')
        await visit.reads('#summary', /^1 of 3 admitted, 0 rejected; the window ends in (60|59)\ss\.$/)
        await visit.run('Justify a term')
        await visit.reads('#answer', 'Invoicing applies')
        await visit.run('Score a node')
        await visit.reads('#answer', 'Human resources (HR)')

        await visit.reads('#limit-message', 'Limit reached: 3 of 3 requests used.')
        await visit.sendAnyway('Rate limit exceeded. Maximum 3 LLM requests per minute. Please wait.')
        const secondsLeft = async () => Number(/\d+/.exec(await visit.reads('#wait', /^Run again in \d+\ss\.$/))?.[0])
        const seconds = await secondsLeft()
        t.ok(seconds > 50 && seconds <= 60, `${seconds} s to wait`)
        const button = visit.page.getByRole('button', { name: 'Run', exact: true })
        t.equal(await button.getAttribute('aria-disabled'), 'true')
        await visit.reads('#summary', /^3 of 3 admitted, 1 rejected\.$/)
        for (const mark of ['circle.admitted', 'circle.admitted', 'circle.admitted', 'path.rejected', 'line.limit']) t.equal(await visit.page.locator(`#timeline ${mark}`).count(), mark === 'circle.admitted' ? 3 : 1, mark)
        await button.press('Enter')
        await pass(2, visit)
        t.match(await visit.reads('#summary', '3 of 3 admitted'), '1 rejected', 'the button does not send a request yet')
        const later = await secondsLeft()
        t.ok(later < seconds, `${later} s to wait`)

        await visit.page.locator('#anyway').focus()
        await minutePasses(visit)
        await visit.reads('#progress', 'You can run operations again.')
        t.equal(await button.getAttribute('aria-disabled'), 'false')
        t.equal(await visit.focus(), 'run-button', 'the focus moves from the button that disappears')
        t.notOk(await visit.page.locator('#limit-reached').isVisible())
        await visit.run('Analyze')
        await visit.reads('#summary', '1 of 3 admitted, 0 rejected')
        await visit.click('Sign out')
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

        for (const page of ['#sign-out', '[name=logout]']) await visit.page.locator(page).click()
        await visit.reads('#who', 'Not signed in')
        await visit.click('Sign in with OpenID')
        await visit.click('Cancel')
        await visit.reads('#notice', 'The OpenID sign-in failed or was cancelled.')
        await visit.end(t)
      })

      await t.test('an administrator sees the digests of all callers, and changes the limit', async (t) => {
        const [administrator, alice] = [await Visit.begin(browser, address), await Visit.begin(browser, address)]
        await minutePasses(administrator, alice)
        await administrator.signIn('admin')
        await administrator.reads('#callers-caption', 'Callers with a counter')
        await alice.signIn('alice')
        for (let request = 0; request < 3; request++) await alice.run('Analyze')
        await alice.sendAnyway()
        await administrator.reads('#callers', /fe8a67d0\s*3 of 3\s*1\s*\d+\ss/)
        await administrator.reads('#callers', /Overflow, shared by all others\s*not in use/)
        t.notMatch(await administrator.page.locator('#administration').innerText(), /alice|mira/)
        t.notOk(await alice.page.locator('#administration').isVisible(), 'only administrators see the administration')

        await administrator.reads('#requests-limit-in-force', 'In force: 3, as configured')
        await administrator.click('Change the limits')
        await administrator.reads('#limit-status', 'Enter another limit first.')
        await administrator.change('5')
        await administrator.reads('#requests-limit-in-force', /^In force: 5$/)
        await alice.page.locator('#timeline .limit-label').filter({ hasText: 'limit 5' }).waitFor()
        await alice.reads('#progress', 'You can run operations again.')
        t.notOk(await alice.page.locator('#limit-reached').isVisible(), 'a raised limit enables the button at once')
        await alice.page.reload()
        await alice.reads('#summary', '3 of 5 admitted, 1 rejected')
        await alice.run('Analyze')
        await administrator.reads('#callers', /fe8a67d0\s*4 of 5/)

        await administrator.change('2')
        await alice.reads('#summary', '4 admitted; the limit is 2 now, 1 rejected')
        await administrator.reads('#callers', /fe8a67d0\s*4, limit now 2/)
        await alice.page.locator('#wait').waitFor()
        await administrator.change('-5')
        await administrator.reads('#requests-limit-in-force', 'In force: 1 (set to −5)')
        await administrator.page.reload()
        await administrator.reads('#requests-limit-in-force', 'In force: 1 (set to −5)')
        await alice.reads('h1', '1 model call a minute')

        await administrator.click('Forget fe8a67d0')
        await administrator.reads('#limit-status', 'The caller fe8a67d0 starts with a new window.')
        await administrator.page.locator('#administration-title:focus').waitFor()
        t.notMatch(await administrator.page.locator('#callers').innerText(), 'fe8a67d0', 'no other caller is in the table, so the focus moves to its title')
        await alice.reads('#summary', 'No window is open: the next request opens one.')
        t.notOk(await alice.page.locator('#limit-reached').isVisible())

        await administrator.change(String(Number.MAX_SAFE_INTEGER))
        await alice.reads('h1', '9,007,199,254,740,991 model calls a minute')
        await alice.page.locator('#timeline .limit-label').filter({ hasText: 'limit 9007.2T, above this scale' }).waitFor()
        t.same((await alice.page.locator('#timeline text').allTextContents()).slice(0, 5), ['0', '1', '2', '3', '4'], 'the scale of the axis depends on the requests')

        await administrator.change('0')
        await administrator.page.getByRole('dialog', { name: 'Switch a quota off?' }).getByRole('button', { name: 'Cancel' }).click()
        await administrator.reads('#requests-limit-in-force', '9,007,199,254,740,991')
        await administrator.change('0')
        await administrator.click('Switch off')
        await alice.reads('#unlimited', 'No quota is on')
        await alice.reads('h1', 'Model calls without a limit')
        await alice.reads('#intro', 'Each caller can run them as often as they like.')
        await administrator.click('Use the configured limits')
        await administrator.reads('#limit-status', 'The configured limits apply again.')
        await alice.page.locator('#timeline .limit-label').filter({ hasText: 'limit 3' }).waitFor()
        await alice.end(t)
        await administrator.end(t)
      })
    })
  }

  t.test('each quota that is on is shown by itself', async (t) => {
    const { address } = await startPage(t)
    const visit = await Visit.begin(browser, address)
    await visit.signIn('admin')
    await visit.reads('#tokens-limit-in-force', 'Off, as configured')
    t.notOk(await visit.page.locator('#requests-title').isVisible(), 'one quota needs no title')
    await visit.change('3', '60', '1')
    await visit.reads('#tokens-limit-in-force', /^In force: 60$/)
    await visit.reads('#intro', 'Further limits: 60 tokens a minute, 1 stream at once.')
    await visit.reads('[data-quota=streams]', '0 of 1 streams open.')
    // The text has 38 tokens.
    await visit.run('Analyze')
    await visit.reads('[data-quota=tokens]', /38 of 60 tokens used; the window ends in \d+\ss\./)
    await visit.run('Stream')
    await visit.reads('#limit-message', 'Limit reached: 76 of 60 tokens used.')
    t.equal(await visit.page.locator('#limit-reached').getAttribute('class'), 'notice')
    await visit.sendAnyway('Rate limit exceeded. Maximum 60 LLM tokens per minute. Please wait.')
    t.equal(await visit.page.locator('#limit-reached').getAttribute('class'), 'rejection')
    await visit.reads('#summary', /2 of 3 admitted, 0 rejected; the window ends in \d+\ss\./)
    await visit.reads('[data-quota=tokens]', /76 of 60 tokens used\.$/)

    await visit.change('0')
    await visit.click('Switch off')
    await visit.reads('h1', '60 tokens a minute')
    t.notOk(await visit.page.locator('#requests').isVisible())
    await visit.end(t)
  })

  t.test('the page can be used with the keyboard alone', async (t) => {
    const { address } = await startPage(t)
    const visit = await Visit.begin(browser, address)
    const { page } = visit
    const press = async (...keys: string[]): Promise<void> => { for (const key of keys) await page.keyboard.press(key) }
    await press('Tab')
    t.equal(await page.locator(':focus').innerText(), 'Skip to the operations')
    await press('Tab')
    t.equal(await visit.focus(), 'user-name')
    await page.keyboard.type('alice')
    await press('Tab')
    await page.keyboard.type('wonderland')
    await press('Enter')
    await visit.reads('#who', 'Signed in as alice')
    t.equal(await visit.focus(), 'operations', 'the focus moves to the operations')
    await press('Tab', 'ArrowRight')
    t.equal(await page.locator('#address').innerText(), 'POST /api/justify-leaf')
    await press('Tab', 'Tab')
    t.equal(await page.locator(':focus').getAttribute('name'), 'leaf')
    await press('Enter')
    await visit.reads('#answer', 'Invoicing applies')
    await visit.end(t)
  })

  t.test('the page reports that a session has ended', async (t) => {
    const { address } = await startPage(t)
    const visit = await Visit.begin(browser, address)
    await visit.run('Analyze', 'Authentication is required')
    await visit.signIn('alice')
    t.notOk(await visit.page.locator('#problem').isVisible(), 'the message for visitors who are not signed in disappears')
    await visit.loseSession()
    await visit.page.locator('#run-button').click()
    await visit.reads('#notice', 'Your session has ended. Sign in again.')
    t.equal(await visit.focus(), 'user-name')
    await visit.page.unroute('**/api/quota')
    await visit.reads('#who', 'Not signed in')
    t.notOk(await visit.page.locator('#problem').isVisible())
    await visit.signIn('alice')
    t.notOk(await visit.page.locator('#notice').isVisible())

    const other = await visit.page.context().newPage()
    await other.goto(address)
    await other.getByRole('button', { name: 'Sign out' }).click()
    await other.getByText('Not signed in').waitFor()
    await visit.reads('#notice', 'Your session has ended. Sign in again.')
    await visit.end(t)
  })

  t.test('the page reports a session that cannot be read, and offers a retry', async (t) => {
    const { address } = await startPage(t)
    const { page, ...visit } = await Visit.begin(browser, address)
    await page.route('**/api/session', async (route) => { await route.abort() })
    await page.reload()
    const retry = page.getByRole('button', { name: 'Try again' })
    await page.getByText('The service does not answer, so the page cannot show who is signed in.').waitFor()
    await retry.click()
    await page.locator('#retry:focus').waitFor()
    await page.unroute('**/api/session')
    await retry.click()
    await page.getByText('Not signed in').waitFor()
    t.notOk(await page.locator('#notice').isVisible())
    t.same(visit.complaints, [])
    await page.context().close()
  })

  t.test('two pages of one user show the same window', async (t) => {
    const { address, minutePasses } = await startPage(t)
    const [one, other] = [await Visit.begin(browser, address), await Visit.begin(browser, address)]
    for (const visit of [one, other]) await visit.signIn('alice')
    await one.reads('#summary', 'No window is open')
    await one.page.locator('#run-button').dblclick()
    await one.reads('#progress', 'Done.')
    await one.reads('#summary', '1 of 3 admitted, 0 rejected')
    for (let request = 0; request < 2; request++) await one.run('Analyze')
    await one.sendAnyway()
    await one.page.reload()
    for (const visit of [one, other]) {
      await visit.reads('#limit-message', 'Limit reached: 3 of 3 requests used.')
      await visit.reads('#wait', /\d+\ss/)
      t.equal((await visit.page.locator('main').innerText()).match(/\d+\ss\./g)?.length, 1, 'the page has one countdown')
    }
    await minutePasses(one, other)
    await one.page.locator('#limit-reached').waitFor({ state: 'hidden' })
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
    const { address } = await startPage(t, { MODEL_URL: server.url, MODEL_NAME: 'small-model' })
    const proxy = await FaultyProxy.start(Number(new URL(address).port))
    for (const [cut, reason, origin] of [
      [async () => { await proxy.stop() }, 'The connection was cut.', `http://127.0.0.1:${proxy.port}`],
      [async () => { await server.stop() }, 'The model did not answer.', address]
    ] as const) {
      const visit = await Visit.begin(browser, origin)
      await visit.signIn('alice')
      await visit.run('Stream', 'Sentence 1 has arrived.')
      await cut()
      const problem = await visit.reads('#problem', reason)
      t.match(problem, 'The answer is incomplete: it ended after 1 sentence.')
      t.match(await visit.page.locator('#answer').innerText(), 'Invoices are late.')
      await visit.page.context().close()
    }
  })

  t.test('a text that is too long for a URL is not sent', async (t) => {
    const { address } = await startPage(t)
    const visit = await Visit.begin(browser, address)
    await visit.signIn('alice')
    const validity = async () => await visit.page.evaluate('document.getElementById("text").validationMessage')
    await visit.page.locator('#text').fill('Zoë 🦊 '.repeat(1000))
    await visit.reads('#text-count', '7,000 of 20,000 characters')
    await visit.page.getByText('Score a node', { exact: true }).click()
    await visit.reads('#text-count', '22,000 of 7,500 bytes in the address')
    await visit.page.locator('#run-button').click()
    t.equal(await validity(), 'The text is 14,500 too long for this operation. Shorten it.')
    t.match(await visit.reads('#summary', 'No window is open'), 'No window', 'no request was counted')
    await visit.page.locator('#text').fill('Zoë 🦊 '.repeat(340))
    await visit.run('Score a node')
    await visit.page.locator('#text').fill('  ')
    t.equal(await validity(), 'Enter a text.')
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
