// docs/rules.md, "Decision": shadow quotas are decided by themselves, after all others.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { mock } from 'node:test'
import t from 'tap'
import {
  MemoryQuotaStore,
  quotaDecisions,
  type Demand,
  type QuotaDefinition,
  type QuotaStore
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { createWaitingStore, RemoteStore } from '../support/remote-store.js'
import { asAlice, createServer } from '../support/server.js'
import { until } from '../support/until.js'

/** A store whose receipts are texts, as those of stores on servers are. */
function textual (store: RemoteStore): QuotaStore {
  return {
    acquire: async (demands) =>
      (await store.acquire(demands)).map((each) =>
        each.receipt === undefined ? each : { ...each, receipt: JSON.stringify(each.receipt) }
      ),
    settle: (receipt, less, once) => store.settle(JSON.parse(String(receipt)), less, once),
    peek: (demand) => store.peek(demand)
  }
}

t.test(
  'a shadow quota is asked after the enforced ones have admitted, on its own, and refuses nothing',
  async (t) => {
    const shadows: Record<string, QuotaDefinition> = {
      full: { perHour: 0 },
      tried: { perHour: 1 },
      wide: { perHour: 9 },
      costly: { cost: () => -1 },
      nobody: { authentication: () => null },
      broken: {
        store: {
          acquire () {
            throw new Error('gone')
          },
          settle () {}
        }
      }
    }
    const enforced: QuotaDefinition = { perMinute: 2, mode: 'enforce' }
    const quotas: Record<string, QuotaDefinition> = { ...shadows, enforced }
    const { ask, counts } = await createServer({ mode: 'shadow', quotas })
    const outcomes = (
      await published(async () => {
        for (const status of [200, 200, 429]) t.equal((await ask()).statusCode, status)
      })
    ).map(
      ({ decision: { quota, outcome, enforced } }) =>
        `${quota} ${outcome}${enforced ? ', enforced' : ''}`
    )
    const others = [
      'wide admitted',
      'costly unavailable',
      'nobody unauthenticated',
      'broken unavailable'
    ]
    t.same(outcomes, [
      'enforced admitted, enforced',
      'full disabled',
      'tried admitted',
      ...others,
      'enforced admitted, enforced',
      'full disabled',
      'tried rejected',
      ...others,
      'enforced rejected, enforced'
    ])
    t.same(await counts(['tried', 'wide', 'enforced']), [1, 2, 2])
  }
)

t.test('a request waits for its shadow quotas for 100 ms at most', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => {
    mock.timers.reset()
  })
  const late = createWaitingStore()
  const shadow = { perDay: { tokens: 50 }, cost: 5, mode: 'shadow', store: late } as const
  const { ask, counts } = await createServer({
    mark: ['default', 'shadow', 'last'],
    quotas: { shadow, last: {} }
  })
  let isDecided = false
  const response = ask().then((received) => {
    isDecided = true
    return received
  })
  await until('the shadow quota is asked', () => late.pending === 1)
  t.same(await counts(['default', 'last']), [1, 1], 'the enforced ones have counted')
  for (const [milliseconds, expected] of [[99, false], [1, true]] as const) {
    for (let passed = 0; passed < milliseconds; passed++) mock.timers.tick(1)
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    t.equal(isDecided, expected)
  }
  const { json } = await response
  t.same(json().map(({ quota }: { quota: string }) => quota), ['default', 'last'])
  const messages = await published(async () => {
    late.answer()
    await until('it is settled', async () => (await counts(['shadow']))[0] === 5)
  })
  matchExactly(t, messages, [{ decision: { quota: 'shadow', outcome: 'admitted' } }])
})

t.test('what a late shadow quota counts is settled as was reported before', async (t) => {
  const late = createWaitingStore()
  const shadow = { perDay: { tokens: 50 }, cost: 5, mode: 'shadow', store: late } as const
  const { begin, counts, log } = await createServer({
    mark: ['default', 'shadow'],
    quotas: { shadow, place: { concurrent: 1, mode: 'shadow', store: late } }
  })
  const { request, end } = await begin()
  t.same(request.quota.decisions.map(({ quota }) => quota), ['default'])
  const charged = request.quota.charge({ tokens: 2 })
  await end()
  t.same(await counts(['shadow']), [0])
  late.answer()
  await charged
  await until('it is settled', async () => (await counts(['shadow']))[0] === 2)
  t.same(log.problems(), [])
})

t.test('a handler does not wait until its shadow quotas have settled', async (t) => {
  const silent = new RemoteStore()
  const shadow = { perDay: { tokens: 50 }, cost: 5, mode: 'shadow', store: silent } as const
  const shared = new RemoteStore()
  const { app, counts } = await createServer({
    quotas: {
      tokens: { ...shadow, mode: 'enforce', store: textual(shared) },
      shadow: { ...shadow, store: textual(silent) }
    }
  })
  const take = async () => app.quotaAcquire(asAlice(), ['tokens', 'shadow'])
  silent.waits = 'settle'
  const [charged, used, ended, disposed, handedOver] = [
    await take(),
    await take(),
    await take(),
    await take(),
    await take()
  ]
  const waited = [
    charged.charge(3),
    used.chargeUsage({ total_tokens: 7 }),
    ended.end(),
    disposed[Symbol.asyncDispose](),
    handedOver.handOver()
  ]
  let left = waited.length
  for (const each of waited) {
    each.then(() => {
      left -= 1
    })
  }
  await until('no function waits', () => left === 0)
  const { holdings } = JSON.parse(await handedOver.handOver())
  t.same(holdings.map(({ quota }: { quota: string }) => quota), ['tokens', 'shadow'])
  await charged.end()
  t.same(await counts(['tokens', 'shadow']), [25, 27])
  silent.waits = undefined
  silent.answer()
  await until('it is settled', async () => (await counts(['shadow']))[0] === 25)
})

t.test('a shadow quota that is not decided yet is not handed over', async (t) => {
  const late = createWaitingStore()
  const shadow = { perDay: { tokens: 50 }, cost: 5, mode: 'shadow' } as const
  const { app, counts } = await createServer({
    quotas: {
      tokens: { ...shadow, mode: 'enforce', store: textual(new RemoteStore()) },
      shadow: { ...shadow, store: textual(late) },
      place: { concurrent: 1, mode: 'shadow', store: late }
    }
  })
  const permit = await app.quotaAcquire(asAlice(), ['tokens', 'shadow', 'place'])
  const { holdings } = JSON.parse(await permit.handOver())
  t.same(holdings.map(({ quota }: { quota: string }) => quota), ['tokens'])
  late.answer()
  await until('the shadow quotas are decided', async () => (await counts(['shadow']))[0] === 5)
  await until('the place is free', async () => (await counts(['place']))[0] === 0)
})

t.test('a shadow quota has no part in what a range is granted', async (t) => {
  const tokens = { perDay: { tokens: 50 }, cost: { least: 1, most: 40 } }
  const { begin, counts } = await createServer({
    quotas: { tokens, shadow: { perDay: { tokens: 7 }, cost: tokens.cost, mode: 'shadow' } }
  })
  const { request } = await begin()
  t.equal(request.quota.granted('tokens'), 40)
  t.same(await counts(['tokens', 'shadow']), [40, 7])
})

for (const isAsynchronous of [false, true]) {
  t.test(
    'a shadow quota whose store withdraws what it returned refuses nothing, ' +
      `${isAsynchronous ? 'asynchronously' : 'at once'}`,
    async (t) => {
      const memory = new MemoryQuotaStore()
      let withdraw = (): void => {}
      const acquire = (demands: readonly Demand[]) =>
        memory.acquire(demands).map((acquisition) => {
          const { proxy, revoke } = Proxy.revocable(acquisition, {})
          withdraw = revoke
          return proxy
        })
      const store: QuotaStore = {
        acquire: isAsynchronous ? async (demands) => acquire(demands) : acquire,
        settle () {}
      }
      const { ask, log } = await createServer({
        quotas: { calls: {}, shadow: { perDay: { tokens: 5 }, cost: 5, mode: 'shadow', store } }
      })
      const withdrawAfter = (): void => {
        withdraw()
      }
      // Of the calls, nothing has been returned that could be withdrawn.
      subscribe(quotaDecisions.name, withdrawAfter)
      const { statusCode } = await ask()
      unsubscribe(quotaDecisions.name, withdrawAfter)
      t.equal(statusCode, 200)
      matchExactly(t, log.problems(), [
        { level: 50, quota: 'shadow', msg: 'a shadow quota could not decide on a request' }
      ])
    }
  )
}
