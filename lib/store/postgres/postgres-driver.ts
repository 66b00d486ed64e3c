import { nameOf } from '../shared/driver.js'
import type { Call, Caller, Decided, Driver, Holding, Release, StoredRequest } from '../shared/driver.js'
import type { CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import type { CallFunction } from './database.js'

// How long a place is held after it was last written, in milliseconds.
const lease = 30_000

// How long what the server has told of its clock is used, in milliseconds. Longer, and the clock could have been set back to the same time.
const knownFor = 100

/** The counters and places in the table of a PostgreSQL server. */
export class PostgresDriver implements Driver {
  readonly #call: CallFunction
  readonly #cap: number
  // For each quota, between which times of the server's clock `acquire_one` can decide, as the server has told a moment ago.
  readonly #known = new Map<string, { readonly clock: readonly number[], readonly until: number }>()

  /** @param cap The caller cap. */
  constructor (call: CallFunction, cap: number) {
    this.#call = call
    this.#cap = cap
  }

  async acquire (requests: readonly StoredRequest[], { time, holder, sequence }: Call): Promise<(Decided[] | undefined)[]> {
    const demands = requests.flatMap(({ demands, held, nonce }) => demands.map((demand, index) => {
      const row = demand.window === null ? { holder, length: lease } : { holder: '', length: demand.window }
      return { ...demand, ...row, held: Number(held[index]), nonce: nonce + index }
    }))
    const isNew = requests.every(({ asked }) => asked === 0)
    const windows = isNew ? [] : demands.filter(({ holder }) => holder === '')
    const slots = [...distinct(windows.map(stateOf)), ...distinct([...demands, ...windows.map(overflowOf)])]
    const numbers = new Map(slots.map((slot, index) => [nameOf(slot), index + 1]))
    const numbersOf = (rows: readonly Caller[]): number[] => rows.map((row) => numbers.get(nameOf(row)) ?? 0)
    const [only] = demands
    const known = this.#known.get(String(only?.counters))
    const clock = known !== undefined && performance.now() < known.until ? known.clock : [null, null, null]
    const reply = isNew && demands.length === 1 && only?.holder === ''
      ? await this.#call('acquire_one', time, ...clock, this.#cap,
        ...columns(demands, 'counters', 'callerKey', 'length', 'nonce', 'limit', 'cost', 'end').flat())
      : await this.#call('acquire', time, this.#cap, sequence,
        ...columns(slots, 'counters', 'callerKey', 'holder', 'length', 'held'), requests.map(({ demands }) => demands.length),
        numbersOf(demands), numbersOf(demands.map(stateOf)), numbersOf(demands.map(overflowOf)),
        ...columns(demands, 'nonce', 'limit', 'cost', 'end'))
    const [told, ...decided]: [number[] | null, ...(number[][] | null)[]] = JSON.parse(reply)
    const until = performance.now() + knownFor
    if (told !== null) for (const { counters } of demands) this.#known.set(counters, { clock: told, until })
    return requests.map(({ demands }, index) => decided[index]?.map((each, place) => readDecided(each, Object(demands[place]))))
  }

  async release (releases: readonly Release[], holdings: readonly Holding[], { time, holder, sequence }: Call): Promise<void> {
    const windows = releases.map((release) => release.overflow ? overflowOf(release) : release).sort(inOrder)
    const places = [...holdings].sort(inOrder)
    await this.#call('release', time, holder, lease, sequence,
      ...columns(places, 'counters', 'callerKey', 'held'), ...columns(windows, 'counters', 'callerKey', 'nonce', 'amount'))
  }

  async peek (demand: Demand, time: number | null): Promise<QuotaCount | null> {
    const { counters, callerKey, window, end } = demand
    const reply = await this.#call('peek', time, this.#cap, counters, callerKey, end)
    if (reply === '') return window === null ? { count: 0, windowRemaining: null, overflow: false } : null
    const { admitted, nonce, ...count } = readDecided(JSON.parse(reply), demand)
    return count
  }

  forget (callerKey: string, counters: string): Promise<unknown> {
    return this.#call('forget', counters, callerKey)
  }

  async list (counters: string, cursor: string | null, time: number | null, date: number): Promise<CallerPage> {
    return JSON.parse(await this.#call('list', time, date, counters, cursor ?? ''))
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    return JSON.parse(await this.#call('inspect', counters))
  }

  clear (): Promise<unknown> {
    return this.#call('clear')
  }
}

const stateOf = <Slot extends Caller>(slot: Slot): Slot => ({ ...slot, callerKey: 'state' })
const overflowOf = <Slot extends Caller>(slot: Slot): Slot => ({ ...slot, callerKey: 'overflow' })

function distinct<Slot extends Caller> (slots: readonly Slot[]): Slot[] {
  return [...new Map(slots.map((slot) => [nameOf(slot), slot])).values()].sort(inOrder)
}

/** The order in which each process locks rows, so that no two of them wait for each other. */
function inOrder (one: Caller, other: Caller): number {
  return nameOf(one) < nameOf(other) ? -1 : 1
}

function columns<Name extends string> (rows: readonly Readonly<Record<Name, string | number | null>>[], ...names: readonly Name[]) {
  return names.map((name) => rows.map((row) => row[name]))
}

function readDecided ([count = 0, rest = 0, flags = 0, nonce = 0]: readonly number[], { window, end }: Demand): Decided {
  const windowEnd = end === null ? { windowRemaining: window === null ? null : rest } : { windowRemaining: null, end: rest }
  return { admitted: flags % 2 === 1, count, ...windowEnd, overflow: flags >= 2, nonce }
}
