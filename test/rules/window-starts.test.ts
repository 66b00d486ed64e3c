// docs/rules.md, "Time zones": on which day, and at what time of it, windows begin.
import t, { type Test } from 'tap'
import {
  localAuthentication,
  type Authentication,
  type QuotaDefinition,
  type Start
} from '../../lib/index.js'
import { assertQuotaOptions } from '../../lib/start/plugin-checks.js'
import { matchExactly } from '../support/match-exactly.js'
import { createServer, fromOrganisation } from '../support/server.js'
import { setWallClock, virtualPerformance } from '../support/time.js'

const hour = 3_600_000
const berlin = { timeZone: 'Europe/Berlin' }

// Times at which windows begin, one after another, in UTC.
const beginnings: [what: string, definition: QuotaDefinition, begins: string[]][] = [
  [
    'the 31st, or the last day of a month without it',
    { perMonth: 1, startsOn: 31 },
    ['2027-12-31', '2028-01-31', '2028-02-29', '2028-03-31', '2028-04-30', '2028-05-31']
  ],
  [
    '29 February, or the 28th where there is none',
    { perMonth: 1, startsOn: 29 },
    ['2027-01-29', '2027-02-28', '2027-03-29', '2028-01-29', '2028-02-29', '2028-03-29']
  ],
  [
    'a billing day at midnight in Berlin, in winter and in summer',
    { perMonth: 1, startsOn: 17, ...berlin },
    ['2026-02-16T23:00Z', '2026-03-16T23:00Z', '2026-04-16T22:00Z']
  ],
  [
    'Sunday, in UTC by default',
    { perWeek: 1, startsOn: 'sunday' },
    ['2026-11-22', '2026-11-29', '2026-12-06']
  ],
  [
    'Monday, if only the time of day is set',
    { perWeek: 1, startsAt: '06:00' },
    ['2026-11-23T06:00Z', '2026-11-30T06:00Z']
  ],
  [
    'Saturday at a time of day in Berlin, whose clocks change on Sunday',
    { perWeek: 1, startsOn: 'saturday', startsAt: '18:30', ...berlin },
    ['2026-03-21T17:30Z', '2026-03-28T17:30Z', '2026-04-04T16:30Z']
  ],
  [
    'six in the morning, in UTC by default',
    { perDay: 1, startsAt: '06:00' },
    ['2026-11-27T06:00Z', '2026-11-28T06:00Z']
  ],
  [
    'the next moment, where a clock change skips the time',
    { perDay: 1, startsAt: '02:30', ...berlin },
    ['2026-03-28T01:30Z', '2026-03-29T01:00Z', '2026-03-30T00:30Z']
  ],
  [
    'the first time, where it comes twice',
    { perDay: 1, startsAt: '02:30', ...berlin },
    ['2026-10-24T00:30Z', '2026-10-25T00:30Z', '2026-10-26T01:30Z']
  ],
  [
    'the next day, where a month skips its day',
    { perMonth: 1, startsOn: 30, timeZone: 'Pacific/Apia' },
    ['2011-11-30T10:00Z', '2011-12-30T10:00Z', '2012-01-29T10:00Z']
  ]
]

for (const [what, quota, begins] of beginnings) {
  t.test(`windows begin on ${what}`, async (t) => {
    const set = setWallClock(t)
    const { statuses, standings } = await createServer({ quotas: { quota } })
    const period = Object.keys(quota)[0]?.slice(3).toLowerCase()
    const times = begins.map((begin) => Date.parse(begin))
    for (const [index, begin] of times.slice(0, -1).entries()) {
      const end = Number(times[index + 1])
      // Some begins leave a year out.
      if (end - begin > 32 * 24 * hour) continue
      for (const time of [begin, end - 1]) {
        const caller = { 'x-caller': String(time) }
        set(time)
        matchExactly(t, await standings(['quota'], caller), [
          { period, window: null, resetsAt: end }
        ])
        t.same(await statuses(1, caller), [200], String(begins[index]))
        set(end - 1)
        t.same(await statuses(1, caller), [429])
        set(end)
        t.same(await statuses(1, caller), [200])
      }
    }
  })
}

// Definitions, and under which name the counters of a quota of 5 requests are kept.
const named: [definition: QuotaDefinition, counters: string][] = [
  [{ perDay: 5 }, 'day'],
  [{ perDay: 5, ...berlin }, 'day.Europe/Berlin'],
  [{ perDay: 5, startsAt: '06:00' }, 'day.UTC.06:00'],
  [{ perDay: 5, startsAt: '00:00' }, 'day.UTC.00:00'],
  [{ perDay: 5, startsAt: '06:00', timeZone: () => 'UTC' }, 'day.zone.06:00'],
  [{ perWeek: 5 }, 'week'],
  [{ perWeek: 5, startsOn: 'sunday' }, 'week.UTC.sunday'],
  [{ perWeek: 5, startsOn: 'sunday', startsAt: '06:00' }, 'week.UTC.06:00.sunday'],
  [{ perWeek: 5, startsOn: () => 'sunday' }, 'week.UTC.start'],
  [{ perMonth: 5 }, 'month.UTC'],
  [{ perMonth: 5, startsOn: 17, ...berlin }, 'month.Europe/Berlin.17'],
  [{ perMonth: 5, startsOn: () => 17, ...berlin }, 'month.Europe/Berlin.start'],
  [
    { perMonth: 5, startsOn: () => 17, startsAt: '06:00', timeZone: () => 'UTC' },
    'month.zone.06:00.start'
  ]
]

t.test('the name of the counters says when windows begin, so that others start anew', async (t) => {
  const quotas = Object.fromEntries(
    named.map(([definition], index) => [`chat-${index}`, definition])
  )
  const { app } = await createServer({ quotas })
  t.same(
    app.quotas.map(({ counters }) => counters),
    named.map(([, counters], index) => `chat-${index}.requests.${counters}`)
  )
})

// Definitions, and the option that stops the start, with its rule and value.
const onlyWith = 'must be set only with perDay, perWeek or perMonth'
const invalid: [definition: object, message: string][] = [
  ...[{}, { perMinute: 5 }, { perHour: 5 }, { limit: 5, window: 5000 }, { concurrent: 5 }].flatMap(
    (limit): [object, string][] => [
      [{ ...limit, startsAt: '06:00' }, `startsAt ${onlyWith}; it got "06:00"`],
      [{ ...limit, startsOn: 5 }, 'startsOn must be set only with perWeek or perMonth; it got 5'],
      [{ ...limit, timeZone: 'UTC' }, `timeZone ${onlyWith}; it got "UTC"`]
    ]
  ),
  [
    { perDay: 5, startsOn: () => 5 },
    'startsOn must be set only with perWeek or perMonth; it got a function'
  ],
  ...['24:00', '6:00', '06:60', '06:00:00', '0600', ' 06:00', '', 6, null, () => '06:00'].map(
    (startsAt): [object, string] => [
      { perDay: 5, startsAt },
      `startsAt must be a time of day from 00:00 to 23:59, such as 06:00; it got ${
        typeof startsAt === 'function' ? 'a function' : JSON.stringify(startsAt)
      }`
    ]
  ),
  ...[0, 32, -1, 1.5, NaN, '17', 'monday', null].map((startsOn): [object, string] => [
    { perMonth: 5, startsOn },
    'startsOn must be a day of the month, an integer from 1 to 31, or a function that returns ' +
      `that of a caller; it got ${typeof startsOn === 'string' ? `"${startsOn}"` : startsOn}`
  ]),
  ...[1, 0, 7, 'Monday', 'mon', null].map((startsOn): [object, string] => [
    { perWeek: 5, startsOn },
    'startsOn must be one of monday, tuesday, wednesday, thursday, friday, saturday, sunday, or ' +
      'a function that returns that of a caller; it got ' +
      `${typeof startsOn === 'string' ? `"${startsOn}"` : startsOn}`
  ])
]

t.test('start-up fails where no window can begin so, and says which option has what', (t) => {
  for (const [chat, rule] of invalid) {
    const message = `fastify-llm-quota: the option quotas.chat.${rule}`
    const check = () => {
      assertQuotaOptions({ quotas: { chat } })
    }
    t.throws(check, { code: 'FST_ERR_LLM_QUOTA_OPTION', message })
  }
  t.end()
})

/** The days on which the windows of organizations begin, by their names. */
const days = new Map<unknown, Start>([
  ['17', 17],
  ['18', 18],
  ['31', 31],
  ['saturday', 'saturday'],
  ['sunday', 'sunday']
])

function dayOf (authentication: Authentication): Start {
  return (authentication.kind === 'local' && days.get(authentication.username)) || 1
}

t.test('the day can be a function of the caller, for example its day of billing', async (t) => {
  const set = setWallClock(t)
  const { app, ask, store } = await createServer({
    authentication: fromOrganisation,
    rateLimitHeaders: 'draft-10',
    quotas: { budget: { perMonth: 1, startsOn: dayOf, ...berlin } }
  })
  const statusOf = async (organisation: string): Promise<number> =>
    (await ask({ headers: { 'x-organisation': organisation } })).statusCode
  set('2026-11-16T22:59Z')
  t.same([await statusOf('17'), await statusOf('18')], [200, 200])
  set('2026-11-16T23:00Z')
  t.same([await statusOf('17'), await statusOf('18')], [200, 429])
  set('2026-11-17T23:00Z')
  t.same([await statusOf('17'), await statusOf('18')], [429, 200])
  const { headers } = await ask({ headers: { 'x-organisation': '17' } })
  const seconds = 29 * 24 * 3600
  matchExactly(t, headers, {
    'retry-after': String(seconds),
    'ratelimit-policy': '"budget";q=1',
    ratelimit: `"budget";r=0;t=${seconds}`
  })
  const standing = await app.quotaStanding(localAuthentication('31'), 'budget')
  matchExactly(t, standing, {
    period: 'month',
    window: null,
    windowRemaining: null,
    resetsAt: Date.parse('2026-11-29T23:00Z')
  })
  t.equal(store.inspect('budget.requests.month.Europe/Berlin.start').trackedCallers, 2)
})

t.test('the day of the week can be a function, too', async (t) => {
  const set = setWallClock(t)
  const { ask } = await createServer({
    authentication: fromOrganisation,
    quotas: { budget: { perWeek: 1, startsOn: dayOf } }
  })
  const by = (organisation: string) => ask({ headers: { 'x-organisation': organisation } })
  for (const [time, day, status] of [
    ['2026-11-28T23:59Z', 'sunday', 200],
    ['2026-11-28T23:59Z', 'saturday', 200],
    ['2026-11-29T00:00Z', 'sunday', 200],
    ['2026-11-29T00:00Z', 'saturday', 429]
  ] as const) {
    set(time)
    t.equal((await by(day)).statusCode, status, `${day} at ${time}`)
  }
})

t.test('a day that a function cannot say is a 503 and counts nothing', async (t) => {
  const failing: [what: RegExp, startsOn: () => unknown][] = [
    [
      /^no directory$/,
      () => {
        throw new Error('no directory')
      }
    ],
    ...[
      [undefined, 'undefined'],
      [null, 'null'],
      [0, '0'],
      [32, '32'],
      [1.5, '1\\.5'],
      ['17', 'a string'],
      ['alice@example.com', 'a string'],
      [{}, 'an object'],
      [Promise.reject(new Error('a day that rejects ends no process')), 'an object']
    ].map(([value, shown]): [RegExp, () => unknown] => [
      new RegExp(`^startsOn must be a day of the month.* it got ${shown}$`),
      () => value
    ])
  ]
  const time = virtualPerformance(t)
  let startsOn: () => unknown = () => 1
  const { app, ask, store, log } = await createServer({
    quotas: { budget: Object({ perMonth: 5, startsOn: () => startsOn() }) }
  })
  let message: RegExp
  for ([message, startsOn] of failing) {
    time.advance(60_000)
    log.lines.length = 0
    const { statusCode, headers } = await ask()
    t.same([statusCode, headers['retry-after']], [503, '1'])
    const { refusal } = await app.quotaAcquire(localAuthentication('bob'), 'budget')
    matchExactly(t, refusal, { outcome: 'unavailable', reason: 'time-zone', count: null })
    await t.rejects(app.quotaStanding(localAuthentication('bob'), 'budget'), {
      code: 'FST_ERR_LLM_QUOTA_STANDING'
    })
    t.equal(store.inspect('budget.requests.month.UTC.start').trackedCallers, 0)
    matchExactly(t, log.failures()[0], { err: { message } })
  }
})

/** A quota of a caller whose day of billing changes. */
async function changing (t: Test) {
  const set = setWallClock(t)
  const state = { day: 1 }
  const host = await createServer({
    quotas: { budget: { perMonth: 1, startsOn: () => state.day } }
  })
  return { set, state, ...host }
}

t.test(
  'a start that is moved takes effect at its first date after the open window has ended',
  async (t) => {
    for (const [day, opens] of [
      [17, '2026-12-17'],
      [5, '2026-12-05'],
      [1, '2026-12-01'],
      [31, '2026-12-31']
    ] as const) {
      const { set, state, ask, standings } = await changing(t)
      set('2026-11-03')
      t.equal((await ask()).statusCode, 200)
      state.day = day
      const resetsAt = Date.parse(opens)
      for (const time of ['2026-11-03', '2026-11-10', '2026-11-25', '2026-11-30T23:59Z']) {
        const now = set(time)
        matchExactly(t, await standings(['budget']), [{ count: 1, resetsAt }], `${day}: ${time}`)
        const seconds = String((resetsAt - now) / 1000)
        matchExactly(t, await ask(), { statusCode: 429, headers: { 'retry-after': seconds } })
      }
      set(resetsAt - 1)
      t.equal((await ask()).statusCode, 429)
      set(resetsAt)
      t.equal((await ask()).statusCode, 200)
    }
  }
)

t.test('a start that changes every day gives no second window, however long it does', async (t) => {
  const day = 24 * hour
  for (const shift of [0, 9]) {
    const { app, set, state, clock } = await changing(t)
    await app.ready()
    const alice = localAuthentication('alice')
    const admitted: number[] = []
    const first = Date.parse('2026-01-01')
    for (let time = first; time < first + 240 * day; time += day) {
      set(time)
      // A sweep runs, and the counter must outlive it.
      clock.advance(day)
      state.day = new Date(time + shift * day).getUTCDate()
      if ((await app.quotaAcquire(alice, 'budget')).refusal === null) admitted.push(time)
    }
    // The first window can have begun before the first request.
    const gaps = admitted.slice(2).map((time, index) => time - Number(admitted[index + 1]))
    t.ok(gaps.every((gap) => gap >= 28 * day), `shift ${shift}: ${admitted.length} requests`)
    t.ok(admitted.length > 5)
  }
})

t.test('quotaForget begins anew on the day that is now said', async (t) => {
  const { app, set, state, ask, standings } = await changing(t)
  set('2026-11-10')
  await ask()
  state.day = 17
  await app.quotaForget(localAuthentication('alice'), 'budget')
  t.equal((await ask()).statusCode, 200)
  const resetsAt = Date.parse('2026-11-17')
  matchExactly(t, await standings(['budget']), [{ count: 1, resetsAt }])
})

t.test(
  'a counter is kept for a minute after its window, and where a function says when windows ' +
    'begin, for as long as the next one can be delayed',
  async (t) => {
    const set = setWallClock(t)
    const minute = 60_000
    const begin = Date.parse('2026-04-01')
    const end = Date.parse('2026-05-01')
    for (const [startsOn, keptUntil] of [
      [1, end + minute],
      [() => 1, Date.parse('2026-06-02') + 6 * hour + minute]
    ] as const) {
      const quotas: Record<string, QuotaDefinition> = { budget: { perMonth: 1, startsOn } }
      const { app, ask, clock, store } = await createServer({ quotas })
      const trackedAt = async (time: number, caller: string): Promise<number> => {
        set(time)
        // A sweep is due.
        clock.advance(minute)
        await ask({ headers: { 'x-caller': caller } })
        return store.inspect(String(app.quotas[0]?.counters)).trackedCallers
      }
      t.equal(await trackedAt(begin, 'alice'), 1)
      t.equal(await trackedAt(keptUntil - 1, 'bob'), 2)
      t.equal(await trackedAt(keptUntil, 'carol'), 2, 'without alice')
    }
  }
)
