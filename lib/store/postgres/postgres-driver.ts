import { required } from '../../required.js'
import type { Call, Caller, Decided, Driver, Reply } from '../shared/driver.js'
import type { CallerCount, CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import { readJson, type Fields } from './replies.js'
import type { CallFunction } from './schema.js'
import { storedName, unstoredName } from './stored-names.js'

// How long what the server has said of its clock is used, in milliseconds. Longer, and the clock
// could have been set back to the same time.
const clockKnownFor = 100

/** A row of the counters that a call needs, as in `given_rows` of schema.sql. */
interface Row {
  readonly counters: string
  readonly caller: string
  readonly kind: 'caller' | 'overflow' | 'places'
}

/**
 * Between which times of the server's clock, while nobody sets it back, no sweep is due, and by how
 * much the clock is behind the time.
 */
interface KnownClock {
  readonly since: number
  readonly until: number
  readonly shift: number
  /** When this process learned it, in milliseconds of its own clock. */
  readonly learnedAt: number
}

/** The counters and places in the tables of a PostgreSQL server. */
export class PostgresDriver implements Driver {
  readonly mostDemands = 96
  readonly #callFunction: CallFunction
  readonly #cap: number
  // By the names of counters.
  readonly #clocks = new Map<string, KnownClock>()

  constructor (callFunction: CallFunction, cap: number) {
    this.#callFunction = callFunction
    this.#cap = cap
  }

  async decide (call: Call): Promise<Reply> {
    const single = singleDemand(call)
    const known = single === null ? undefined : this.#knownClock(single.counters)
    const reply =
      single === null || known === undefined
        ? await this.#decideAll(call)
        : await this.#decideOne(call.time, single, known)
    const fields = readJson(reply)
    this.#learnClock(call, fields)
    const decided = fields.list('decided')
    return {
      decided: call.requests.map((demands, index) => {
        const each = decided.listAt(index)
        return each === null
          ? undefined
          : demands.map((demand, place) => readDecided(each.fieldsAt(place), demand))
      }),
      isLeaseKnown: fields.boolean('isLeaseKnown')
    }
  }

  async peek (demand: Demand, time: number | null): Promise<QuotaCount | null> {
    const { counters, callerKey, window, end } = demand
    const reply = await this.#callFunction(
      'peek',
      time,
      this.#cap,
      storedName(counters),
      storedName(callerKey),
      window,
      end
    )
    return reply === null ? null : readCount(readJson(reply), demand)
  }

  async forget (callerKey: string, counters: string): Promise<void> {
    await this.#callFunction('forget', storedName(counters), storedName(callerKey))
  }

  async list (
    counters: string,
    cursor: string | null,
    time: number | null,
    date: number
  ): Promise<CallerPage> {
    const fields = readJson(
      await this.#callFunction('list', time, date, storedName(counters), cursor ?? '')
    )
    return {
      callers: fields.list('callers').allFields().map(readCaller),
      cursor: fields.textOrNull('cursor')
    }
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    const fields = readJson(await this.#callFunction('inspect', storedName(counters)))
    return { trackedCallers: fields.number('trackedCallers'), sweeps: fields.number('sweeps') }
  }

  async clear (): Promise<void> {
    await this.#callFunction('clear')
  }

  #decideAll ({ time, lease, holdings, settlements, requests }: Call): Promise<string | null> {
    const demands = requests.flat()
    const rows = rowsOf(demands, holdings, settlements)
    const slots = new Map(rows.map((row, index) => [rowName(row), index + 1]))
    const slotOf = (row: Row): number => required(slots.get(rowName(row)), 'a row of the call')
    const quotas = quotasOf(demands)
    const quotaNames = quotas.map(({ counters }) => counters)
    const settled = settlements.filter(({ overflow }) => overflow)
    return this.#callFunction(
      'decide',
      time,
      this.#cap,
      lease?.process ?? null,
      lease?.number ?? null,
      lease?.generation ?? null,
      lease?.isComplete === true ? lease.generation : null,
      JSON.stringify(quotas),
      settled.map(({ counters }) => storedName(counters)),
      JSON.stringify(rows),
      JSON.stringify(
        holdings.map((holding) => ({ slot: slotOf(placesOf(holding)), held: holding.held }))
      ),
      JSON.stringify(
        settlements.map((settlement) => ({
          slot: slotOf(settlement.overflow ? overflowOf(settlement) : counterOf(settlement)),
          window_id: settlement.windowId,
          less_count: settlement.lessCount,
          less_held: settlement.lessHeld
        }))
      ),
      requests.map((request) => request.length),
      JSON.stringify(
        demands.map((demand) => {
          const isPlace = demand.window === null
          return {
            quota: isPlace ? null : quotaNames.indexOf(storedName(demand.counters)) + 1,
            slot: slotOf(isPlace ? placesOf(demand) : counterOf(demand)),
            overflow_slot: isPlace ? null : slotOf(overflowOf(demand)),
            quota_limit: demand.limit,
            least: demand.least,
            most: demand.most,
            is_estimate: demand.isEstimate,
            window_length: demand.window,
            window_end: demand.end
          }
        })
      )
    )
  }

  #decideOne (time: number | null, demand: Demand, clock: KnownClock): Promise<string | null> {
    return this.#callFunction(
      'decide_one',
      time,
      clock.since,
      clock.until,
      clock.shift,
      this.#cap,
      storedName(demand.counters),
      storedName(demand.callerKey),
      demand.limit,
      demand.most,
      demand.isEstimate ? demand.most : 0,
      demand.window,
      demand.end
    )
  }

  #knownClock (counters: string): KnownClock | undefined {
    const known = this.#clocks.get(counters)
    return known !== undefined && performance.now() - known.learnedAt < clockKnownFor
      ? known
      : undefined
  }

  #learnClock ({ requests }: Call, fields: Fields): void {
    const clock = fields.listOrNull('clock')
    if (clock === null) return
    const known = {
      since: clock.numberAt(0),
      until: clock.numberAt(1),
      shift: clock.numberAt(2),
      learnedAt: performance.now()
    }
    for (const { counters, window } of requests.flat()) {
      if (window !== null) this.#clocks.set(counters, known)
    }
  }
}

/** Returns the demand of a call that has nothing else, and whose cost is fixed; otherwise null. */
function singleDemand ({ lease, holdings, settlements, requests }: Call): Demand | null {
  const hasOthers = lease !== null || holdings.length > 0 || settlements.length > 0
  if (hasOthers || requests.length !== 1) return null
  const [demand, another] = requests.flat()
  if (demand === undefined || another !== undefined || demand.window === null) return null
  return demand.least === demand.most ? demand : null
}

function counterOf ({ counters, callerKey }: Caller): Row {
  return { counters: storedName(counters), caller: storedName(callerKey), kind: 'caller' }
}

function overflowOf ({ counters }: Pick<Caller, 'counters'>): Row {
  return { counters: storedName(counters), caller: '', kind: 'overflow' }
}

function placesOf ({ counters, callerKey }: Caller): Row {
  return { counters: storedName(counters), caller: storedName(callerKey), kind: 'places' }
}

// Stored names have no character below the space.
function rowName ({ counters, caller, kind }: Row): string {
  return `${counters}\n${caller}\n${kind}`
}

/** Returns each row that a call needs once, in the order in which every process locks rows. */
function rowsOf (
  demands: readonly Demand[],
  holdings: Call['holdings'],
  settlements: Call['settlements']
): Row[] {
  const rows = new Map<string, Row>()
  const need = (row: Row): void => {
    rows.set(rowName(row), row)
  }
  for (const demand of demands) {
    if (demand.window === null) {
      need(placesOf(demand))
    } else {
      need(counterOf(demand))
      need(overflowOf(demand))
    }
  }
  for (const holding of holdings) need(placesOf(holding))
  for (const settlement of settlements) {
    need(settlement.overflow ? overflowOf(settlement) : counterOf(settlement))
  }
  return [...rows].sort(byName).map(([, row]) => row)
}

/** Compares two different names. */
function byName ([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number {
  return one < other ? -1 : 1
}

/** Returns each quota with windows of the demands once. */
function quotasOf (demands: readonly Demand[]) {
  const lengths = new Map<string, number>()
  for (const { counters, window } of demands) {
    if (window !== null) lengths.set(storedName(counters), window)
  }
  return [...lengths].map(([counters, window]) => ({ counters, window_length: window }))
}

function readDecided (fields: Fields, demand: Demand): Decided {
  return {
    admitted: fields.boolean('hasRoom'),
    granted: fields.number('granted'),
    ...readCount(fields, demand),
    windowId: fields.number('windowId')
  }
}

function readCount (fields: Fields, { window, end }: Demand): QuotaCount {
  const count = fields.number('count')
  const held = fields.number('held')
  const overflow = fields.boolean('overflow')
  if (window === null) return { count, held, windowRemaining: null, overflow }
  if (end === null) return { count, held, windowRemaining: fields.number('rest'), overflow }
  return { count, held, windowRemaining: null, end: fields.number('end'), overflow }
}

function readCaller (fields: Fields): CallerCount {
  const end = fields.numberOrNull('end')
  return {
    callerKey: unstoredName(fields.text('callerKey')),
    count: fields.number('count'),
    held: fields.number('held'),
    windowRemaining: end === null ? fields.numberOrNull('rest') : null,
    ...(end !== null && { end })
  }
}
