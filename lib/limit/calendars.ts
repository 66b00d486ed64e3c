import { formatType } from '../errors.js'
import { ignoreRejection } from '../promises.js'
import { Calendar, type CalendarPeriod } from './calendar.js'
import { isTimeZone, LocalTime, timeZoneRule } from './local-time.js'
import { startDayOf, startRule } from './window-start.js'

/** How many time zones a quota remembers. Each takes about 50 kB, and 0.3 ms to create. */
const mostTimeZones = 100

/** A time zone, and its calendars by when their windows start. */
interface CalendarsOfTimeZone {
  readonly localTime: LocalTime
  readonly byStart: Map<unknown, Calendar>
}

/** The calendars of a quota's callers. Of the time zones, the oldest one is evicted. */
export class Calendars {
  readonly #period: CalendarPeriod
  readonly #startsAt: number
  readonly #byTimeZone = new Map<string, CalendarsOfTimeZone>()

  /** @param startsAt Milliseconds since midnight. */
  constructor (period: CalendarPeriod, startsAt: number) {
    this.#period = period
    this.#startsAt = startsAt
  }

  /**
   * Returns the calendar of a caller. Its parameters can be what functions of the host returned.
   *
   * @param timeZone The name of a time zone.
   * @param startsOn A `Start`; undefined for days.
   * @throws {TypeError} If one of them is something else.
   */
  of (timeZone: unknown, startsOn: unknown): Calendar {
    const { localTime, byStart } = this.#ofTimeZone(timeZone)
    const known = byStart.get(startsOn)
    if (known !== undefined) return known
    const period = this.#period
    const startDay = startDayOf(period, startsOn)
    if (startDay === null) {
      ignoreRejection(startsOn)
      throw new TypeError(`startsOn ${startRule(period)}; it got ${formatType(startsOn)}`)
    }
    const calendar = new Calendar({ period, startDay, startsAt: this.#startsAt }, localTime)
    byStart.set(startsOn, calendar)
    return calendar
  }

  #ofTimeZone (timeZone: unknown): CalendarsOfTimeZone {
    if (typeof timeZone === 'string') {
      const known = this.#byTimeZone.get(timeZone)
      if (known !== undefined) return known
    }
    if (!isTimeZone(timeZone)) {
      ignoreRejection(timeZone)
      throw new TypeError(`timeZone ${timeZoneRule}; it got ${formatType(timeZone)}`)
    }
    const [oldest] = this.#byTimeZone.keys()
    if (oldest !== undefined && this.#byTimeZone.size >= mostTimeZones) {
      this.#byTimeZone.delete(oldest)
    }
    const added = { localTime: new LocalTime(timeZone), byStart: new Map<unknown, Calendar>() }
    this.#byTimeZone.set(timeZone, added)
    return added
  }
}
