// Cases in which the Redis store needs more than one script, and requests that share one.
import t from 'tap'
import { MemoryQuotaStore, type Acquisition, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore, type QuotaRedisClient } from '../../lib/redis.js'
import { adaptClient } from '../../lib/store/redis/clients.js'
import { VirtualClock } from '../../lib/testing.js'
import { matchExactly } from '../support/match-exactly.js'
import { startRedis } from '../support/redis-server.js'
import { ReferenceStore } from '../support/reference-store.js'
import { acquireOne, demand } from '../support/told-store.js'
import { until } from '../support/until.js'

const { client } = await startRedis(t)
t.beforeEach(async () => {
  await client.flushall()
})

/**
 * An implementation of the interface for clients, and the parameters of the scripts that it sent.
 */
function recorded () {
  const sent: (readonly (string | Buffer)[])[] = []
  const { evaluateDigest, evaluateSource } = adaptClient(client)
  const note =
    (run: QuotaRedisClient['evaluateDigest']): typeof run =>
      (...command) => {
        sent.push(command[2])
        return run(...command)
      }
  return {
    client: { evaluateDigest: note(evaluateDigest), evaluateSource: note(evaluateSource) },
    sent
  }
}

const names = (kind: string, count: number) =>
  Array.from({ length: count }, (_, number) => `${kind} ${number}`)
const plain = (results: unknown) =>
  JSON.parse(
    JSON.stringify(results ?? null, (name, value) => (name === 'windowId' ? undefined : value))
  )

for (const silent of [0, 1]) {
  t.test(
    `the results at a cap of several pages are those of the reference, with ${silent} dead rows`,
    async (t) => {
      const { client, sent } = recorded()
      const clock = new VirtualClock()
      const maxTrackedCallers = 3_500
      const store = new RedisQuotaStore({
        client,
        clock: clock.now,
        maxTrackedCallers,
        rememberRejections: false
      })
      const reference = new ReferenceStore({ clock: clock.now, maxTrackedCallers })
      const newcomer = demand('newcomer')
      const same = async (ask: (each: Required<QuotaStore>) => unknown, message: string) => {
        t.same(plain(await ask(store)), plain(await ask(reference)), message)
      }
      const touch = (...callers: string[]) =>
        same(
          (each) => Promise.all(callers.map((caller) => each.acquire([demand(caller)]))),
          `${callers.length} callers`
        )
      // One caller was seen before the others, and then again.
      const [early = '', ...others] = names('caller', maxTrackedCallers)
      await touch(early, ...others)
      clock.advance(35_000)
      await touch(early)
      clock.advance(900)
      await touch(...others.slice(silent))
      clock.advance(34_100)
      await touch(early)
      clock.advance(50_000)
      await touch('newcomer')
      clock.advance(35_500)
      await same((each) => each.peek(newcomer), 'peek with a due sweep')
      t.equal(
        (await store.peek(newcomer)) === null,
        silent === 1,
        'the window of the overflow counter is open if no row is dead'
      )
      const before = sent.length
      // The first of these quotas knows the caller, and is not counted until the second one does.
      const two = (each: Required<QuotaStore>, caller: string) =>
        each.acquire([demand(caller, { counters: 'another' }), demand(caller)])
      for (const caller of ['newcomer', 'another', 'newcomer']) {
        await same((each) => two(each, caller), caller)
      }
      t.ok(sent.length - before > 3, `${sent.length - before} scripts`)
      await same((each) => each.peek(newcomer), 'peek')
      await same((each) => each.inspect('default'), 'inspect after the sweep')
      await same((each) => each.forget(early, 'default'), 'forget')
      await touch('newcomer', 'third')
      const listed: string[] = []
      for (
        let page = await store.list('default');
        ;
        page = await store.list('default', page.cursor)
      ) {
        t.ok(page.callers.length < 200)
        listed.push(...page.callers.map(({ callerKey }) => callerKey))
        if (page.cursor === null) break
      }
      t.same(
        [...new Set(listed)].sort(),
        reference
          .list('default')
          .callers.map(({ callerKey }) => callerKey)
          .sort()
      )
    }
  )
}

t.test(
  'a new caller at the cap needs a script for each page of rows at most, and only the ' +
    'first one after a sweep',
  async (t) => {
    const everybody = names('caller', 3_000)
    const { client, sent } = recorded()
    const clock = new VirtualClock()
    const store = new RedisQuotaStore({
      client,
      clock: clock.now,
      maxTrackedCallers: everybody.length
    })
    const touch = () => Promise.all(everybody.map((caller) => acquireOne(store, caller)))
    const scriptsOfNewcomer = async () => {
      const before = sent.length
      t.match(await acquireOne(store, 'newcomer'), { overflow: true })
      return sent.length - before
    }
    await touch()
    clock.advance(60_000)
    const firstPages = await scriptsOfNewcomer()
    t.ok(firstPages > 1 && firstPages <= 4, `${firstPages} scripts`)
    await touch()
    clock.advance(60_000)
    const pages = await scriptsOfNewcomer()
    t.ok(pages > 1 && pages <= 4, `${pages} scripts`)
    t.equal(await scriptsOfNewcomer(), 1)
    clock.advance(120_000)
    for (let request = 0; request < 5; request++) await acquireOne(store, 'caller 0')
    t.match(
      await store.inspect('default'),
      { trackedCallers: 1 },
      'requests of a known caller complete a sweep'
    )
  }
)

t.test('requests that arrive together, or while a call is in flight, share a call', async (t) => {
  const { client, sent } = recorded()
  const store = new RedisQuotaStore({ client, rememberRejections: false })
  const together = (callers: readonly string[]) =>
    Promise.all(callers.map((caller) => acquireOne(store, caller, { limit: 2 })))
  const first = together(['one'])
  await until('the first call is in flight', () => sent.length === 1)
  await Promise.all([first, together(names('caller', 130))])
  t.same(
    // Before the callers are the numbers, the process and the quota.
    sent.map(({ length }) => length - 3),
    [1, 128, 2],
    'the callers'
  )
  matchExactly(
    t,
    await together(['one', 'one', 'one']),
    [{ admitted: true, count: 2 }, { admitted: false }, { admitted: false }],
    'in order'
  )
  sent.length = 0
  const acquired = await together(names('other', 16))
  await Promise.all(acquired.map((acquisition) => store.settle(acquisition, 0)))
  t.equal(sent.length, 2, 'releases share a call, too')
  t.equal((await store.peek(demand('other 3')))?.count, 0)
})

t.test('the requests of one call fail together, and no others fail', async (t) => {
  const { evaluateSource } = adaptClient(client)
  const store = new RedisQuotaStore({
    client: {
      evaluateSource,
      evaluateDigest () {
        throw new Error('closed')
      }
    }
  })
  await acquireOne(store, 'first')
  const settled = await Promise.allSettled(
    names('caller', 2).map((caller) => acquireOne(store, caller))
  )
  t.same(
    settled.map(({ status }) => status),
    ['rejected', 'rejected']
  )
  await t.rejects(acquireOne(store, 'later'), /closed/)
})

t.test(
  '128 requests with ten quotas at the cap, in the worst order, are decided as in memory',
  async (t) => {
    const clock = new VirtualClock()
    const options = { clock: clock.now, maxTrackedCallers: 50 }
    const store = new RedisQuotaStore({ client, rememberRejections: false, ...options })
    const memory = new MemoryQuotaStore(options)
    const quotas = names('quota', 10)
    // A known caller follows each new one, and each of the requests has other settings.
    const requests = (from: number) =>
      Array.from({ length: 128 }, (_, request) => {
        const caller = request % 2 === 0 ? `new ${from + request}` : `caller ${request % 7}`
        const limit = 3 + (request % 5)
        const least = request % 3
        return quotas.map((counters) =>
          demand(caller, { counters, limit, least, most: 3, isEstimate: request % 2 === 0 })
        )
      })
    for (const round of [0, 1, 2]) {
      const actual = Promise.all(requests(round * 100).map((each) => store.acquire(each)))
      const expected = requests(round * 100).map((each) => memory.acquire(each))
      const shown = expected.map((each) => each.map(fieldsOf))
      t.same(
        (await actual).map((each) => each.map(fieldsOf)),
        shown
      )
      clock.advance(60_000)
    }
  }
)

function fieldsOf (acquisition: Acquisition | null) {
  if (acquisition === null) return null
  const { admitted, granted, count, held, windowRemaining, overflow } = acquisition
  return { admitted, granted, count, held, windowRemaining, overflow }
}

/** A client of a server whose clock the test sets forward. */
function withServerTime () {
  const { evaluateSource } = adaptClient(client)
  let ahead = 0
  const settable: QuotaRedisClient = {
    evaluateDigest: () => Promise.reject(new Error('NOSCRIPT')),
    evaluateSource: (source, ...given) => {
      const now = Date.now() + ahead
      const time = `{'${Math.floor(now / 1000)}', '${(now % 1000) * 1000}'}`
      return evaluateSource(source.replaceAll("redis.call('TIME')", time), ...given)
    }
  }
  return {
    client: settable,
    advance: (milliseconds: number) => {
      ahead += milliseconds
    }
  }
}

t.test('a quota that is used again while a pass removes its rows keeps to its cap', async (t) => {
  const cap = 3_000
  const { client, advance } = withServerTime()
  const store = new RedisQuotaStore({ client, maxTrackedCallers: cap, rememberRejections: false })
  const ask = (counters: string, callers: readonly string[]) =>
    Promise.all(callers.map((caller) => acquireOne(store, caller, { counters })))
  await ask('idle', names('old', cap))
  await ask('used', ['b'])
  advance(100_000)
  await ask('used', ['b'])
  advance(100_000)
  // Each request looks at a page. The quota is back before all of its rows are removed.
  await ask('used', ['b'])
  await ask('idle', ['again'])
  for (const caller of names('b', 10)) await ask('used', [caller])
  const { trackedCallers } = await store.inspect('idle')
  t.equal(trackedCallers, 1)
  const fresh = await ask('idle', names('fresh', 2 * cap))
  t.equal(fresh.filter((each) => each?.overflow === false).length, cap - 1)
})
