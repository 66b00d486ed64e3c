import type { Call, Decided, Driver, Holding, Release, StoredRequest } from '../shared/driver.js'
import type { CallerPage, Demand, QuotaCount, QuotaStoreState } from '../store.js'
import type { Database } from './database.js'

/** The counters and places in the tables of a PostgreSQL server. */
export class PostgresDriver implements Driver {
  readonly #database: Database
  readonly #cap: number

  /** @param cap The caller cap. */
  constructor (database: Database, cap: number) {
    this.#database = database
    this.#cap = cap
  }

  async acquire (requests: readonly StoredRequest[], call: Call): Promise<readonly (readonly Decided[] | undefined)[]> {
    const { time, holder, sequence } = call
    const [first] = requests
    const only = first?.demands[0]
    if (requests.length === 1 && first?.demands.length === 1 && first.asked === 0 && only?.window != null) {
      const { counters, callerKey, window, limit, cost, end } = only
      const demanded = [counters, callerKey, window, first.nonce, limit, cost, end]
      return readDecided(await this.#database.call('acquire_one', time, this.#cap, ...demanded), requests)
    }
    const demands = requests.flatMap((request) => request.demands.map((demand, index) => ({ ...demand, held: Number(request.held[index]) })))
    const slots = [...new Map(demands.map((demand) => [nameOf(demand), demand])).values()].sort(inOrder)
    const numbers = new Map(slots.map((demand, index) => [nameOf(demand), index + 1]))
    const reply = await this.#database.call('acquire', time, this.#cap, holder, sequence,
      slots.map(({ counters }) => counters), slots.map(({ callerKey }) => callerKey),
      slots.map(({ window }) => window), slots.map(({ held }) => held),
      requests.map(({ demands }) => demands.length), requests.map(({ asked }) => asked), requests.map(({ nonce }) => nonce),
      demands.map((demand) => Number(numbers.get(nameOf(demand)))),
      demands.map(({ limit }) => limit), demands.map(({ cost }) => cost), demands.map(({ end }) => end))
    return readDecided(reply, requests)
  }

  async release (releases: readonly Release[], holdings: readonly Holding[], { time, holder, sequence }: Call): Promise<void> {
    const given = releases.map((release) => ({ ...release, callerKey: release.overflow ? 'overflow' : release.callerKey }))
      .sort((one, other) => Number(one.overflow) - Number(other.overflow) || inOrder(one, other))
    const held = [...holdings].sort(inOrder)
    await this.#database.call('release', time, holder, sequence,
      given.map(({ counters }) => counters), given.map(({ callerKey }) => callerKey),
      given.map(({ nonce }) => nonce), given.map(({ amount }) => amount),
      held.map(({ counters }) => counters), held.map(({ callerKey }) => callerKey), held.map(({ held }) => held))
  }

  async peek (demand: Demand, time: number | null): Promise<QuotaCount | null> {
    const reply = await this.#database.call('peek', time, this.#cap, demand.counters, demand.callerKey, demand.window, demand.end)
    if (reply === '') return null
    const { flags, nonce, ...count } = readCounter(reply, demand)
    return count
  }

  async forget (callerKey: string, counters: string): Promise<void> {
    await this.#database.call('forget', counters, callerKey)
  }

  async list (counters: string, cursor: string | null, time: number | null, date: number): Promise<CallerPage> {
    const reply = await this.#database.call('list', time, date, counters, cursor ?? '')
    const page: { callers: readonly [string, number, number | null][], cursor: string | null } = JSON.parse(reply)
    const callers = page.callers.map(([callerKey, count, windowRemaining]) => ({ callerKey, count, windowRemaining }))
    return { callers, cursor: page.cursor }
  }

  async inspect (counters: string): Promise<QuotaStoreState> {
    const [trackedCallers = 0, sweeps = 0] = readNumbers(await this.#database.call('inspect', counters))
    return { trackedCallers, sweeps }
  }

  async clear (): Promise<void> {
    await this.#database.call('clear')
  }
}

interface Named { readonly counters: string, readonly callerKey: string }

function nameOf ({ counters, callerKey }: Named): string {
  return `${counters} ${callerKey}`
}

/** The order in which each process locks rows, so that no two of them wait for each other. */
function inOrder (one: Named, other: Named): number {
  return nameOf(one) < nameOf(other) ? -1 : 1
}

/** Reads what was decided on each demand of each request; nothing for a request that must be sent again. */
function readDecided (reply: string, requests: readonly StoredRequest[]): (Decided[] | undefined)[] {
  const replies = reply.split(';')
  return requests.map((request, index) => {
    if (replies[index] === '') return undefined
    const decided = String(replies[index]).split(',')
    return request.demands.map((demand, each) => {
      const { flags, ...others } = readCounter(decided[each], demand)
      return { admitted: flags % 2 === 1, ...others }
    })
  })
}

function readCounter (reply: string | undefined, { window, end }: Demand): QuotaCount & { readonly flags: number, readonly nonce: number } {
  const [count = 0, rest = 0, flags = 0, nonce = 0] = readNumbers(reply)
  const windowEnd = end === null ? { windowRemaining: window === null ? null : rest } : { windowRemaining: null, end: rest }
  return { count, ...windowEnd, overflow: flags >= 2, flags, nonce }
}

/** Reads numbers with single spaces between them. */
function readNumbers (reply: string | undefined): number[] {
  const numbers = String(reply).split(' ').map(Number)
  if (numbers.some((number) => Number.isNaN(number))) throw new TypeError('unexpected reply of the server')
  return numbers
}
