// docs/rules.md, "Time zones": every window of a time zone, compared with a calendar that is worked
// out in another way: step by step, by what the clocks there show.
import t, { type Test } from 'tap'
import {
  localAuthentication,
  MemoryQuotaStore,
  type Demand,
  type QuotaDefinition,
  type QuotaStore
} from '../../lib/index.js'
import { createServer } from '../support/server.js'
import { setWallClock } from '../support/time.js'

const minute = 60_000
const day = 24 * 60 * minute

// When the clocks of a time zone are changed: at night, at midnight, by half an hour, and at night
// and by a day that is skipped.
const changes: [timeZone: string, dates: string[]][] = [
  ['Europe/Berlin', ['2026-03-29', '2026-10-25']],
  ['America/Sao_Paulo', ['2018-02-18', '2018-11-04']],
  ['Australia/Lord_Howe', ['2026-04-05', '2026-10-04']],
  ['Pacific/Apia', ['2011-09-24', '2011-12-30']]
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

// The days of the month are those of the changes, the days before them, and the last one.
const beginnings: readonly Beginning[] = [
  ...['00:00', '00:30', '02:00', '02:30', '06:00', '23:30'].map((startsAt) => ({
    startsOn: null,
    startsAt
  })),
  { startsOn: 'saturday', startsAt: '23:30' },
  { startsOn: 'sunday', startsAt: '02:30' },
  { startsOn: 24, startsAt: '00:00' },
  { startsOn: 29, startsAt: '02:30' },
  { startsOn: 30, startsAt: '00:30' },
  { startsOn: 31, startsAt: '00:00' }
]

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

/** A server with a quota for each beginning, and a function that tells the window of a request. */
async function createServerIn (t: Test, timeZone: string) {
  const set = setWallClock(t)
  let noted: readonly Demand[] = []
  const memory = new MemoryQuotaStore()
  const store: QuotaStore = {
    acquire (demands) {
      noted = demands
      return memory.acquire(demands)
    }
  }
  const quotas = Object.fromEntries(
    beginnings.map((beginning, index) => [`quota-${index}`, definitionOf(timeZone, beginning)])
  )
  const { app } = await createServer({ store, quotas })
  await app.ready()
  const caller = localAuthentication('alice')
  /** Returns the window that a request at a time is counted in. */
  const windowAt = async (name: string, time: number): Promise<unknown[]> => {
    set(time)
    await app.quotaAcquire(caller, name)
    return noted.flatMap(({ start, end }) => [start, end])
  }
  return { windowAt }
}

const timesOf: readonly ((window: Window) => number)[] = [
  ([begin]) => begin,
  ([begin, end]) => begin + Math.floor((end - begin) / 3),
  ([, end]) => end - 1
]

for (const [timeZone, dates] of changes) {
  t.test(
    `when the clocks of ${timeZone} change, each day, week and month begins as they show`,
    async (t) => {
      const { windowAt } = await createServerIn(t, timeZone)
      for (const date of dates) {
        const change = Date.parse(date)
        const shown = shownIn(timeZone, change - 45 * day, change + 45 * day, 30 * minute)
        for (const [index, beginning] of beginnings.entries()) {
          const windows = windowsIn(shown, beginning).filter(
            ([begin, end]) => end > change - 3 * day && begin < change + 3 * day
          )
          const wrong = []
          // All windows for each, because what is known of the latest one is not worked out again.
          for (const timeOf of timesOf) {
            for (const window of windows) {
              const found = await windowAt(`quota-${index}`, timeOf(window))
              if (String(found) !== String(window)) wrong.push([...window, ...found])
            }
          }
          const what = `${beginning.startsOn ?? 'daily'} at ${beginning.startsAt}, ${date}`
          t.same(wrong, [], what)
          t.ok(windows.length > 0, what)
        }
      }
    }
  )
}
