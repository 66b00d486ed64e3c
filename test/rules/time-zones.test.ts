// docs/rules.md, "Time zones": the days, weeks and months of a time zone.
import t, { type Test } from 'tap'
import {
  localAuthentication,
  MemoryQuotaStore,
  type Authentication,
  type Demand,
  type QuotaDefinition,
  type QuotaStore
} from '../../lib/index.js'
import { demand } from '../support/demands.js'
import { matchExactly } from '../support/match-exactly.js'
import { published } from '../support/published.js'
import { createServer, fromOrganisation } from '../support/server.js'
import { setWallClock, virtualPerformance } from '../support/time.js'

// When a day, week or month of a time zone begins and ends, in UTC. Days, weeks and months
// around other changes of the clocks are in every-window.test.ts.
const windows: [what: string, limit: string, timeZone: string, begin: string, end: string][] = [
  ['a day of UTC', 'perDay', 'UTC', '2026-11-24T00:00Z', '2026-11-25T00:00Z'],
  ['a day without midnight', 'perDay', 'America/Havana', '2026-03-08T05:00Z', '2026-03-09T04:00Z'],
  ['a day at 45 minutes', 'perDay', 'Pacific/Chatham', '2026-04-04T10:15Z', '2026-04-05T11:15Z'],
  ['a day of 27 hours', 'perDay', 'Antarctica/Casey', '2018-03-10T13:00Z', '2018-03-11T16:00Z'],
  ['a day of 21 hours', 'perDay', 'Antarctica/Casey', '2016-10-21T16:00Z', '2016-10-22T13:00Z'],
  ['an early day', 'perDay', 'Pacific/Kiritimati', '2026-11-23T10:00Z', '2026-11-24T10:00Z'],
  ['a week from Monday', 'perWeek', 'UTC', '2026-11-23T00:00Z', '2026-11-30T00:00Z'],
  ['a week of two years', 'perWeek', 'Asia/Tokyo', '2026-12-27T15:00Z', '2027-01-03T15:00Z'],
  ['a leap February', 'perMonth', 'UTC', '2028-02-01T00:00Z', '2028-03-01T00:00Z']
]

/** A memory store that notes when the window of each demand begins and ends. */
function notingStore () {
  const store = new MemoryQuotaStore()
  const noted: (string | null)[][] = []
  const noting: QuotaStore = {
    acquire (demands: readonly Demand[]) {
      for (const { start, end } of demands) noted.push([start, end].map(inUtc))
      return store.acquire(demands)
    }
  }
  return { noting, noted }
}

function inUtc (time: number | null): string | null {
  return time === null ? null : new Date(time).toISOString()
}

for (const [what, limit, timeZone, from, to] of windows) {
  t.test(`a window is ${what}, and the next one begins when it ends`, async (t) => {
    const quota: QuotaDefinition = Object({ [limit]: 1, timeZone })
    const set = setWallClock(t)
    const end = set(to)
    const begin = set(from)
    const { noting, noted } = notingStore()
    const { ask } = await createServer({ store: noting, quotas: { quota } })
    for (const time of [begin, end - 1]) {
      const headers = { 'x-caller': String(time) }
      noted.length = 0
      set(time)
      matchExactly(t, (await ask({ headers })).json(), [
        { outcome: 'admitted', window: null, windowRemaining: end - time }
      ])
      set(end - 1)
      matchExactly(t, await ask({ headers }), {
        statusCode: 429,
        headers: { 'retry-after': '1' }
      })
      set(end)
      t.equal((await ask({ headers })).statusCode, 200)
      const window = [inUtc(begin), inUtc(end)]
      t.same(noted.slice(0, 2), [window, window])
      t.equal(noted[2]?.[0], inUtc(end))
    }
  })
}

for (const [what, hours, quota, begins] of [
  ['day of 25 hours', 25, { perDay: 1, timeZone: 'Europe/Berlin' }, '2026-10-24T22:00Z'],
  ['day of 27 hours', 27, { perDay: 1, timeZone: 'Antarctica/Casey' }, '2020-03-07T13:00Z'],
  ['month of 31 days', 31 * 24, { perMonth: 1 }, '2026-10-01T00:00Z']
] as const) {
  t.test(`no sweep removes the counter of a ${what} before it ends`, async (t) => {
    const set = setWallClock(t)
    const { ask, clock } = await createServer({ quotas: { quota } })
    const begin = set(begins)
    t.equal((await ask()).statusCode, 200)
    for (const [minutes, caller, status] of [
      [1, 'bob', 200],
      [(hours - 1) * 60 + 2, 'carol', 200],
      [hours * 60 - 1, 'alice', 429],
      [hours * 60, 'alice', 200]
    ] as const) {
      clock.advance(minutes * 60_000 - clock.now())
      set(begin + minutes * 60_000)
      t.equal((await ask({ headers: { 'x-caller': caller } })).statusCode, status, caller)
    }
  })
}

t.test('a process whose clock is set back across midnight is in the earlier day', async (t) => {
  const set = setWallClock(t)
  const { noting, noted } = notingStore()
  const quotas = { quota: { perDay: 1, timeZone: 'UTC' } }
  const { ask } = await createServer({ store: noting, quotas })
  const times = ['2026-11-25T00:00Z', '2026-11-24T23:59:59.999Z', '2026-11-25T00:00Z']
  for (const [index, time] of times.entries()) {
    set(time)
    const headers = { 'x-caller': `caller ${index}` }
    t.equal((await ask({ headers })).statusCode, 200)
  }
  const later = ['2026-11-25T00:00:00.000Z', '2026-11-26T00:00:00.000Z']
  t.same(noted, [later, ['2026-11-24T00:00:00.000Z', '2026-11-25T00:00:00.000Z'], later])
})

/**
 * Returns the statuses of a caller's requests, each at its time and to a process of its own on one
 * store.
 */
async function statusesAt (
  t: Test,
  quota: QuotaDefinition,
  times: readonly string[]
): Promise<number[]> {
  const set = setWallClock(t)
  const store: QuotaStore = new MemoryQuotaStore()
  const statuses = []
  for (const time of times) {
    const { ask } = await createServer({ store, quotas: { quota } })
    set(time)
    statuses.push((await ask()).statusCode)
  }
  return statuses
}

t.test(
  'a window opens anew only for a day that begins when the last one has ended or later, so ' +
    'processes whose clocks differ agree on it',
  async (t) => {
    const daily: QuotaDefinition = { perDay: 2, timeZone: 'UTC' }
    const times = [
      '2026-11-24T23:59:59Z',
      '2026-11-25T00:00:01Z',
      '2026-11-24T23:59:58Z',
      '2026-11-25T00:00:02Z',
      '2026-11-24T00:00Z',
      '2026-11-26T00:00Z',
      '2026-11-25T23:59:59Z'
    ]
    t.same(await statusesAt(t, daily, times), [200, 200, 200, 429, 429, 200, 200])
    // The window of the next day is full, for a process whose clock is still in the day before.
    const set = setWallClock(t)
    const { ask } = await createServer({ quotas: { quota: { ...daily, perDay: 1 } } })
    set('2026-11-25T00:00Z')
    await ask()
    set('2026-11-24T23:59:58Z')
    t.equal((await ask()).headers['retry-after'], String(24 * 3600 + 2))
    const monthly: QuotaDefinition = { perMonth: 1, timeZone: 'Asia/Tokyo' }
    t.same(
      await statusesAt(t, monthly, [
        '2026-11-30T14:59Z',
        '2026-11-30T15:00Z',
        '2026-11-30T14:59Z',
        '2026-12-31T14:59Z',
        '2026-12-31T15:00Z'
      ]),
      [200, 200, 429, 429, 200]
    )
  }
)

t.test('where clocks are set back across midnight, the day begins the first time', async (t) => {
  // In St Johns until 2011, one minute after midnight; in Casey in 2010, two hours after it.
  const stJohns = [
    '2010-11-07T02:29Z',
    '2010-11-07T02:30:30Z',
    '2010-11-07T03:00Z',
    '2010-11-07T03:31Z',
    '2010-11-08T03:29Z',
    '2010-11-08T03:30Z'
  ]
  t.same(
    await statusesAt(t, { perDay: 1, timeZone: 'America/St_Johns' }, stJohns),
    [200, 200, 429, 429, 429, 200]
  )
  const casey = [
    '2010-03-04T12:59Z',
    '2010-03-04T13:30Z',
    '2010-03-04T15:30Z',
    '2010-03-04T16:30Z',
    '2010-03-05T15:59Z',
    '2010-03-05T16:00Z'
  ]
  t.same(
    await statusesAt(t, { perDay: 1, timeZone: 'Antarctica/Casey' }, casey),
    [200, 200, 429, 429, 429, 200]
  )
  const later = casey.slice(2, 4)
  t.same(await statusesAt(t, { perDay: 1, timeZone: 'Antarctica/Casey' }, later), [200, 429])
})

t.test(
  'the headers of a month have no window, and the standing tells how long it lasts',
  async (t) => {
    const set = setWallClock(t)
    set('2026-11-30T23:59:50Z')
    const { app, ask, begin } = await createServer({
      rateLimitHeaders: 'draft-10',
      quotas: { budget: { perMonth: { dollars: 5 }, cost: 5 } }
    })
    const { request, end } = await begin()
    const standing = {
      unit: 'dollars',
      period: 'month',
      window: null,
      count: 5,
      held: 5,
      remaining: 0,
      windowRemaining: 10_000,
      resetsAt: Date.parse('2026-12-01T00:00Z')
    }
    matchExactly(t, await app.quotaStanding(request, 'budget'), standing)
    await end()
    matchExactly(t, await app.quotaStanding(request, 'budget'), { ...standing, held: 0 })
    matchExactly(t, (await ask()).headers, {
      'retry-after': '10',
      'ratelimit-policy': '"budget";q=5;qu="dollars"',
      ratelimit: '"budget";r=0;t=10'
    })
  }
)

t.test('resetsAt is when the day or month ends, also before a request opens it', async (t) => {
  const set = setWallClock(t)
  set('2026-12-01T00:00Z')
  const quotas: Record<string, QuotaDefinition> = {
    budget: { perMonth: 5 },
    daily: { perDay: 5, timeZone: () => 'Asia/Tokyo' }
  }
  const { standings } = await createServer({ mark: [], quotas })
  matchExactly(t, await standings(Object.keys(quotas)), [
    { count: 0, windowRemaining: null, resetsAt: Date.parse('2027-01-01T00:00Z') },
    { count: 0, windowRemaining: null, resetsAt: Date.parse('2026-12-01T15:00Z') }
  ])
})

t.test('windowRemaining is at least 1, even if a day ends while a store is asked', async (t) => {
  const set = setWallClock(t)
  set('2026-11-25T23:59:59Z')
  const memory = new MemoryQuotaStore()
  const store: QuotaStore = {
    acquire (demands) {
      set('2026-11-26T00:00:01Z')
      return memory.acquire(demands)
    }
  }
  const daily: QuotaDefinition = { perDay: 1, timeZone: 'UTC' }
  const { ask } = await createServer({ store, quotas: { daily } })
  matchExactly(t, (await ask()).json(), [{ outcome: 'admitted', windowRemaining: 1 }])
})

/** The time zone of an organization is its name. */
function zoneOf (authentication: Authentication): string {
  return authentication.kind === 'local' ? String(authentication.username) : 'UTC'
}

/** Sends a request of an organization. */
function by (organization: string) {
  return { headers: { 'x-organisation': organization } }
}

t.test(
  'the time zone can be a function of the caller, whose days end at its midnight',
  async (t) => {
    const set = setWallClock(t)
    const asked: Authentication[] = []
    const { app, ask, store } = await createServer({
      authentication: fromOrganisation,
      quotas: {
        budget: {
          perDay: 1,
          timeZone: (authentication) => {
            asked.push(authentication)
            return zoneOf(authentication)
          }
        }
      }
    })
    const statusOf = async (organization: string): Promise<number> =>
      (await ask(by(organization))).statusCode
    set('2026-11-25T14:59Z')
    t.same([await statusOf('Asia/Tokyo'), await statusOf('Europe/Berlin')], [200, 200])
    set('2026-11-25T15:00Z')
    t.same([await statusOf('Asia/Tokyo'), await statusOf('Europe/Berlin')], [200, 429])
    set('2026-11-25T23:00Z')
    t.same([await statusOf('Asia/Tokyo'), await statusOf('Europe/Berlin')], [429, 200])
    matchExactly(t, asked[0], { kind: 'local', username: 'Asia/Tokyo' })
    t.same(
      app.quotas.map(({ name, period, counters }) => ({ name, period, counters })),
      [{ name: 'budget', period: 'day', counters: 'budget.requests.day.zone' }]
    )
    t.equal(store.inspect('budget.requests.day.zone').trackedCallers, 2)
  }
)

t.test('callers are listed until their day ends, though the longest day has 27 hours', (t) => {
  const hour = 3_600_000
  const set = setWallClock(t)
  const start = set('2026-11-25T00:00Z')
  const end = start + 24 * hour
  const store = new MemoryQuotaStore()
  store.acquire([demand('alice', { counters: 'chat', window: 27 * hour, start, end })])
  set(end - 1)
  matchExactly(t, store.list('chat').callers, [{ callerKey: 'alice', count: 1, end }])
  set(end)
  t.same(store.list('chat').callers, [])
  t.end()
})

t.test(
  'a time zone that throws, or is none, is a 503 and counts nothing; also of an authentication',
  async (t) => {
    const failing: [failure: RegExp, timeZone: () => string][] = [
      [
        /^no directory$/,
        () => {
          throw new Error('no directory')
        }
      ],
      [/^timeZone must be the name of an IANA time zone.* it got a string$/, () => '+01:00'],
      [/it got a string$/, () => 'Nowhere/City'],
      [/it got undefined$/, () => Object(undefined).zone],
      [
        /it got an object$/,
        () => Object(Promise.reject(new Error('a time zone that rejects ends no process')))
      ]
    ]
    const time = virtualPerformance(t)
    let zoneOf: () => string = () => 'UTC'
    const { app, ask, store, log } = await createServer({
      quotas: { budget: { perMonth: 5, timeZone: () => zoneOf() } }
    })
    let failure: RegExp
    for ([failure, zoneOf] of failing) {
      time.advance(60_000)
      log.lines.length = 0
      const { statusCode, headers } = await ask()
      t.same([statusCode, headers['retry-after']], [503, '1'])
      const permit = await app.quotaAcquire(localAuthentication('bob'), 'budget')
      t.match(permit.refusal, { outcome: 'unavailable', reason: 'time-zone', count: null })
      t.equal(store.inspect('budget.requests.month.zone').trackedCallers, 0)
      matchExactly(t, log.problems(), [
        {
          msg: /^the day, week or month of the caller could not be determined; .* once a minute$/,
          err: { message: failure }
        }
      ])
    }
  }
)

t.test(
  'what is used beyond the estimate counts in the day that it is reported in, and opens it',
  async (t) => {
    const set = setWallClock(t)
    const daily: QuotaDefinition = { perDay: { tokens: 100 }, cost: 10, timeZone: 'UTC' }
    const { begin, counts } = await createServer({ quotas: { daily } })
    set('2026-11-24T23:59Z')
    const { request, end } = await begin()
    set('2026-11-25T00:01Z')
    await request.quota.charge(30)
    t.same(await counts(['daily']), [20])
    await end()
    t.same(await counts(['daily']), [20])
  }
)

t.test('where the time zone fails only later, a report counts in the first window', async (t) => {
  const set = setWallClock(t)
  let zone = 'Asia/Tokyo'
  const { begin, counts, log } = await createServer({
    quotas: { budget: { perDay: { tokens: 100 }, cost: 10, timeZone: () => zone } }
  })
  set('2026-11-25T14:00Z')
  const { request, end } = await begin()
  zone = 'Nowhere/City'
  await request.quota.charge(30)
  await end()
  matchExactly(t, log.problems(), [
    { msg: /of the caller could not be determined.*beyond the grant.*of the admission; / }
  ])
  zone = 'Asia/Tokyo'
  t.same(await counts(['budget']), [30])
})

t.test('a quota whose days become those of a time zone starts anew', async (t) => {
  const store = new MemoryQuotaStore()
  const timeZones = [undefined, () => 'Asia/Tokyo', 'Asia/Tokyo', 'Asia/Seoul']
  for (const timeZone of timeZones) {
    const quotas = { budget: { perDay: 1, timeZone } }
    const { statuses } = await createServer({ store, quotas })
    t.same(await statuses(2), [200, 429])
  }
})

t.test(
  'a caller whose time zone changes gets no second window for the same hours',
  async (t) => {
    const set = setWallClock(t)
    let timeZone = 'Asia/Tokyo'
    const { ask, standings } = await createServer({
      quotas: { daily: { perDay: 1, timeZone: () => timeZone } }
    })
    // In Tokyo, the day ends at 15:00, and in New York, it begins at 05:00 (UTC).
    const steps: [time: string, timeZone: string, retryAfter: number | null][] = [
      ['2026-11-25T12:00Z', 'Asia/Tokyo', null],
      ['2026-11-25T12:00Z', 'Asia/Tokyo', 3],
      ['2026-11-25T12:00Z', 'America/New_York', 17],
      ['2026-11-25T15:00Z', 'America/New_York', 14],
      ['2026-11-26T04:00Z', 'America/New_York', 1],
      ['2026-11-26T04:00Z', 'Asia/Tokyo', null],
      ['2026-11-26T05:00Z', 'America/New_York', 24],
      ['2026-11-27T05:00Z', 'America/New_York', null]
    ]
    for (const [time, zone, hours] of steps) {
      const what = `${time} in ${zone}`
      const now = set(time)
      timeZone = zone
      const [message] = await published(async () => {
        t.equal((await ask()).statusCode, hours === null ? 200 : 429, what)
      })
      t.equal(message?.decision.retryAfter, hours === null ? null : hours * 3600, what)
      if (hours === null) continue
      matchExactly(t, await standings(['daily']), [{ resetsAt: now + hours * 3_600_000 }], what)
    }
  }
)

t.test(
  'resetsAt is when a day of the new time zone begins that does not overlap the open window',
  async (t) => {
    const set = setWallClock(t)
    let timeZone = 'Pacific/Honolulu'
    const { ask, standings } = await createServer({
      quotas: { daily: { perDay: 1, timeZone: () => timeZone } }
    })
    const now = set('2026-11-25T12:00Z')
    await ask()
    timeZone = 'Asia/Tokyo'
    // The day of Honolulu ends at 10:00, in the middle of one of Tokyo.
    const resetsAt = Date.parse('2026-11-26T15:00Z')
    matchExactly(t, await standings(['daily']), [{ windowRemaining: resetsAt - now, resetsAt }])
    t.equal((await ask()).headers['retry-after'], String((resetsAt - now) / 1000))
    set(resetsAt - 1)
    t.equal((await ask()).statusCode, 429)
    set(resetsAt)
    t.equal((await ask()).statusCode, 200)
  }
)

t.test('more time zones than are remembered have the same windows', async (t) => {
  const set = setWallClock(t)
  const { ask } = await createServer({
    authentication: fromOrganisation,
    quotas: { budget: { perDay: 1, timeZone: zoneOf } }
  })
  set('2026-06-01T12:00Z')
  const zones = Intl.supportedValuesOf('timeZone').slice(0, 101)
  for (const zone of zones) t.equal((await ask(by(zone))).statusCode, 200, zone)
  for (const zone of zones.slice(0, 3)) t.equal((await ask(by(zone))).statusCode, 429, zone)
})
