// docs/rules.md, "Time zones": every window of a time zone, compared with a calendar that is worked
// out in another way: step by step, by what the clocks there show.
import fc from 'fast-check'
import t, { type Test } from 'tap'
import {
  localAuthentication,
  MemoryQuotaStore,
  type Demand,
  type QuotaDefinition,
  type QuotaStore
} from '../../lib/index.js'
import { assertProperty } from '../support/property.js'
import { createServer } from '../support/server.js'
import { setWallClock } from '../support/time.js'

const minute = 60_000
const day = 24 * 60 * minute

/** How many years are compared, each of a random time zone. */
const walks = Number(process.env.RANDOM_WALKS ?? 1)

// Clocks are changed at night, at midnight, by half an hour, at night with a day that is skipped,
// and not at all.
const zones: [timeZone: string, from: number, to: number][] = [
  ['Europe/Berlin', 2025, 2026],
  ['America/Sao_Paulo', 2017, 2018],
  ['Australia/Lord_Howe', 2025, 2026],
  ['Pacific/Apia', 2011, 2012],
  ['Asia/Kathmandu', 2026, 2026]
]

const weekdays = [
  'sunday',
  'monday',
  'tuesday',
  'wednesday',
  'thursday',
  'friday',
  'saturday'
] as const

type Weekday = (typeof weekdays)[number]

/** When windows begin: each day, on a day of the week, or on a day of the month. */
interface Beginning {
  readonly startsOn: Weekday | number | null
  readonly startsAt: string
}

const beginnings: fc.Arbitrary<Beginning> = fc.record({
  startsOn: fc.oneof(
    fc.constant(null),
    fc.constantFrom(...weekdays),
    fc.integer({ min: 1, max: 31 }),
    fc.constantFrom(29, 30, 31)
  ),
  startsAt: fc.oneof(
    fc.constantFrom('00:00', '00:30', '01:00', '02:00', '02:30', '03:00', '23:45'),
    fc.integer({ min: 0, max: 24 * 4 - 1 }).map((quarters) => {
      const hours = String(Math.floor(quarters / 4)).padStart(2, '0')
      return `${hours}:${String((quarters % 4) * 15).padStart(2, '0')}`
    })
  )
})

/** What the clocks of a time zone show at each step. */
interface Shown {
  readonly from: number
  readonly step: number
  /** Such as `2026-11-28 14:39`. */
  readonly locals: readonly string[]
}

function shownIn (timeZone: string, from: number, to: number, step: number): Shown {
  const format = new Intl.DateTimeFormat('sv-SE', {
    timeZone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit'
  })
  const locals = []
  for (let time = from; time < to; time += step) locals.push(format.format(time))
  return { from, step, locals }
}

/** Returns when windows should begin by the clocks, from some weeks before a time until another. */
function plannedBetween ({ startsOn, startsAt }: Beginning, from: number, to: number): string[] {
  const planned = []
  for (let time = from - 40 * day; time < to + 2 * day; time += day) {
    const date = new Date(time)
    const isLastOfMonth = new Date(time + day).getUTCDate() === 1
    const dayOfMonth = date.getUTCDate()
    const begins =
      typeof startsOn === 'number'
        ? dayOfMonth === startsOn || (isLastOfMonth && dayOfMonth < startsOn)
        : startsOn === null || weekdays[date.getUTCDay()] === startsOn
    if (begins) planned.push(`${date.toISOString().slice(0, 10)} ${startsAt}`)
  }
  return planned
}

/** A window, in milliseconds since the epoch. */
type Window = readonly [begin: number, end: number]

/** Returns the windows that begin and end within a time, by going through its steps. */
function windowsIn ({ from, step, locals }: Shown, beginning: Beginning): Window[] {
  const planned = plannedBetween(beginning, from, from + locals.length * step)
  const windows: Window[] = []
  let begin: number | undefined
  let latest = ''
  let next = 0
  for (const [index, local] of locals.entries()) {
    // Clocks that are set back show again what was before.
    if (local <= latest) continue
    latest = local
    const before = next
    while (next < planned.length && String(planned[next]) <= latest) next += 1
    if (next === before || index === 0) continue
    const time = from + index * step
    if (begin !== undefined) windows.push([begin, time])
    begin = time
  }
  return windows
}

function definitionOf (timeZone: string, { startsOn, startsAt }: Beginning): QuotaDefinition {
  if (startsOn === null) return { perDay: 1, timeZone, startsAt }
  if (typeof startsOn === 'number') return { perMonth: 1, timeZone, startsAt, startsOn }
  return { perWeek: 1, timeZone, startsAt, startsOn }
}

/** Compares the windows of a quota with these. */
async function compare (
  t: Test,
  timeZone: string,
  beginning: Beginning,
  windows: readonly Window[]
): Promise<void> {
  const set = setWallClock(t)
  let noted: (number | null)[] = []
  const memory = new MemoryQuotaStore()
  const store: QuotaStore = {
    acquire (demands: readonly Demand[]) {
      noted = demands.flatMap(({ start, end }) => [start, end])
      return memory.acquire(demands)
    }
  }
  const quota = definitionOf(timeZone, beginning)
  const { app } = await createServer({ store, quotas: { quota } })
  await app.ready()
  const caller = localAuthentication('alice')
  const wrong = []
  const timesOf = [
    ([begin]: Window) => begin,
    ([begin, end]: Window) => begin + Math.floor((end - begin) / 3),
    ([, end]: Window) => end - 1
  ]
  // All windows for each, because what is known of the latest window is not worked out again.
  for (const timeOf of timesOf) {
    for (const [begin, end] of windows) {
      const time = timeOf([begin, end])
      set(time)
      await app.quotaAcquire(caller, 'quota')
      const isRight = noted[0] === begin && noted[1] === end
      if (!isRight) wrong.push([time, ...noted].map((each) => new Date(Number(each)).toISOString()))
    }
  }
  const { startsOn, startsAt } = beginning
  t.same(wrong, [], `${timeZone}, ${startsOn ?? 'daily'} at ${startsAt}: ${windows.length} windows`)
  t.ok(windows.length > 0)
}

/** Returns the days before and after each change of the clocks, minute by minute. */
function changesOf (timeZone: string, from: number, to: number): Shown[] {
  const format = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' })
  const offsetAt = (time: number): string => String(format.format(time).split('GMT')[1])
  const changes = []
  for (let time = Date.UTC(from, 0, 1); time < Date.UTC(to + 1, 0, 1); time += day) {
    if (offsetAt(time) === offsetAt(time + day)) continue
    changes.push(shownIn(timeZone, time - day, time + 3 * day, minute))
  }
  return changes
}

for (const [timeZone, from, to] of zones) {
  if (timeZone === 'Asia/Kathmandu') continue
  t.test(`when the clocks of ${timeZone} change, each day begins as they show`, async (t) => {
    const changes = changesOf(timeZone, from, to)
    for (const startsAt of ['00:00', '00:30', '02:00', '02:17', '06:00', '23:59']) {
      const beginning = { startsOn: null, startsAt }
      const windows = changes.flatMap((shown) => windowsIn(shown, beginning))
      await compare(t, timeZone, beginning, windows)
    }
  })
}

t.test('every day, week and month of a year is as its quarter hours say', async (t) => {
  const years = fc.constantFrom(...zones).chain(([timeZone, from, to]) =>
    fc.record({
      timeZone: fc.constant(timeZone),
      year: fc.integer({ min: from, max: to }),
      several: fc.array(beginnings, { minLength: 4, maxLength: 4 })
    })
  )
  await assertProperty(
    fc.asyncProperty(years, async ({ timeZone, year, several }) => {
      const from = Date.UTC(year, 0, 1) - 35 * day
      const shown = shownIn(timeZone, from, Date.UTC(year + 1, 0, 1) + 35 * day, 15 * minute)
      for (const beginning of several) {
        await compare(t, timeZone, beginning, windowsIn(shown, beginning))
      }
    }),
    { numRuns: walks }
  )
})
