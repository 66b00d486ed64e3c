// Floods of requests with wrong user names and passwords: they cost little and do not delay other requests.
import t from 'tap'
import { Accounts, demonstrationAccounts } from '../../examples/service/accounts/accounts.js'
import { FailedAttempts } from '../../examples/service/accounts/failed-attempts.js'
import { ServiceError } from '../../examples/service/service-error.js'
import { VirtualClock } from '../../lib/testing.js'
import { basic, statuses } from '../support/credentials.js'
import { startService } from '../support/example-service.js'

t.test('wrong passwords delay only attempts with the same user name, longer each time', async (t) => {
  const clock = new VirtualClock()
  const { analyze } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '100' }, clock.now)
  for (const username of ['alice', 'nobody']) {
    t.same(await statuses(5, () => analyze(basic(username, 'wrong'))), Array(5).fill(401), username)
    for (const seconds of [1, 2]) {
      const response = await analyze(basic(username, 'wonderland'))
      t.same([response.status, response.headers.get('retry-after'), await response.json()],
        [429, String(seconds), { error: `Too many failed attempts for this user name. Please try again in ${seconds} s.`, status: 429 }], `${username} waits ${seconds} s, even with the correct password`)
      clock.advance(seconds * 1000)
      t.equal((await analyze(basic(username, 'wrong'))).status, 401)
    }
  }
  t.equal((await analyze(basic('admin', 'looking-glass'))).status, 200)
  clock.advance(60_000)
  t.equal((await analyze(basic('alice', 'wonderland'))).status, 200, 'the correct password is accepted after the wait')
  t.same(await statuses(5, () => analyze(basic('alice', 'wrong'))), Array(5).fill(401), 'a correct password resets the failed attempts')
})

t.test('the wait doubles up to a minute, and failed attempts expire and use a bounded amount of memory', async (t) => {
  const clock = new VirtualClock()
  const failed = new FailedAttempts(clock.now)
  for (let attempt = 0; attempt < 4; attempt++) failed.add('alice')
  const waits = Array.from({ length: 8 }, () => {
    failed.add('alice')
    return failed.wait('alice')
  })
  t.same(waits, [1, 2, 4, 8, 16, 32, 60, 60].map((seconds) => seconds * 1000))
  for (let name = 0; name < 50_000; name++) failed.add(`name ${name}`)
  const waiting = Array.from({ length: 1000 }, (_, name) => failed.wait(`another ${name}`)).filter((wait) => wait > 0).length
  t.ok(waiting > 900, 'user names share entries')
  clock.advance(15 * 60_000)
  failed.add('name 1')
  t.equal(failed.wait('name 1'), 0)
})

t.test('many concurrent wrong passwords cause few hashes, and other requests are answered meanwhile', async (t) => {
  const { analyze, address } = await startService(t, { SERVICE_RATE_LIMIT_PER_MINUTE: '100' })
  let done = 0
  const flood = Array.from({ length: 200 }, async (_, index) => {
    const { status } = await analyze(basic('alice', `wrong ${index}`))
    done++
    return status
  })
  t.equal((await fetch(`${address}/style.css`)).status, 200)
  t.ok(done < 200, `a file is served before the flood ends: ${done} requests are answered`)
  const outcomes = await Promise.all(flood)
  t.ok(outcomes.filter((status) => status === 401).length <= 6, 'five attempts are not delayed, and one more may have begun')
  t.ok(outcomes.every((status) => [401, 429, 503].includes(status)), String(new Set(outcomes)))
})

t.test('attempts that do not fit into the queue are answered with 503', async (t) => {
  const accounts = new Accounts(demonstrationAccounts)
  const outcomes = await Promise.all(Array.from({ length: 130 }, async (_, index) => await accounts.authenticate('nobody', `wrong ${index}`).catch((error: unknown) => error)))
  const busy = outcomes.filter((outcome) => outcome instanceof ServiceError && outcome.statusCode === 503 && outcome.retryAfter === 1)
  t.equal(busy.length, 28, '2 are hashed, and 100 wait')
  t.match(await accounts.authenticate('alice', 'wonderland'), { username: 'alice' })
  t.equal(await accounts.authenticate('alice', ''), null)
})

t.test('no password is hashed if there are no accounts', async (t) => {
  const accounts = new Accounts([])
  t.same(await Promise.all(Array.from({ length: 10_000 }, () => accounts.authenticate('alice', 'wonderland'))), Array(10_000).fill(null))
})
