import type { Rules } from './rules.js'
import { lower, range, settle } from './steps.js'
import { day, hour, TestQuota } from './test-quota.js'

// Its windows are open in `list`, which compares their ends with the wall clock.
const tomorrow = Date.now() + day

/**
 * A quota of the days of a time zone.
 *
 * @param start When the day begins, in milliseconds from a first day.
 * @param length How long it lasts.
 */
function zoned (start: number, length = day): TestQuota {
  const begins = tomorrow + start
  const counters = 'budget.microdollars.day.Europe/Berlin'
  return new TestQuota(counters, 25 * hour, 'microdollars', { start: begins, end: begins + length })
}

/** A day that ended twelve hours ago, and stays open for a caller whose next day starts later. */
function ended (): TestQuota {
  const start = Date.now() - 36 * hour
  const counters = 'budget.microdollars.day.Europe/Berlin.start'
  return new TestQuota(counters, 50 * hour, 'microdollars', { start, end: start + day })
}

/** The rules of the windows of a time zone (docs/rules.md, "Time zones"). */
export const zoneRules: Rules = {
  'a window of a time zone lasts until a day begins at its end or later, whatever the time': () => [
    range(15).map(() => [2 * hour, zoned(0).acquire(1)]),
    [-day, -1, 1, day - 1].map((start) => zoned(start).acquire(1)),
    zoned(day - 1, 3 * day).acquire(1),
    zoned(day).acquire(1),
    zoned(0).acquire(1),
    zoned(day).acquire(1, 3),
    zoned(2 * day, 23 * hour).acquire(1),
    zoned(2 * day + 23 * hour, 25 * hour).acquire(1),
    zoned(10 * day).acquire(1)
  ],

  'a caller whose time zone changes gets no second window for the same hours': () => [
    zoned(0).acquire(1),
    [10 * hour, -10 * hour, 14 * hour, 0].map((start) => zoned(start).acquire(1, 3)),
    zoned(38 * hour).acquire(1, 3),
    [day, 2 * day, 62 * hour].map((start) => zoned(start).acquire(1, 1))
  ],

  'peek, list, forget and settlements follow the windows of a time zone': () => {
    const first = zoned(0).hold(1, 3)
    const second = zoned(0).hold(1, 2)
    return [
      first,
      [-hour, 0, day - 1, day].map((start) => zoned(start).peek(1)),
      zoned(0).list(),
      second,
      settle(first, 1),
      zoned(0).count(1),
      zoned(day).acquire(1),
      settle(second, 0),
      zoned(day).peek(1),
      lower(first, { count: 1, held: 0 }),
      zoned(day).count(1),
      zoned(day).list(),
      zoned(day).forget(1),
      zoned(day).peek(1),
      zoned(day).count(1)
    ]
  },

  'a window that stays open after its end is settled': () => {
    const quota = ended()
    const held = quota.hold(1, 5)
    return [
      held,
      quota.acquire(1),
      settle(held, 2),
      quota.count(1)
    ]
  }
}
