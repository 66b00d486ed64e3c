// Random walks through the state table, on which a store is compared with the reference step by
// step.
import { deepStrictEqual, ok } from 'node:assert/strict'
import fc from 'fast-check'
import { localAuthentication } from '../../lib/caller/authentication.js'
import { callerKey } from '../../lib/caller/caller-key.js'
import type {
  Acquisition,
  CallerCount,
  Demand,
  QuotaCount,
  QuotaStore
} from '../../lib/store/store.js'
import { VirtualClock, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { assertProperty } from './property.js'
import { ReferenceStore } from './reference-store.js'

const minute = 60_000
const hour = 3_600_000
const day = 86_400_000
const largest = Number.MAX_SAFE_INTEGER

/** The time of a store's clock when a walk begins. */
const start = 1_000_000

/** A caller cap that no walk reaches. */
const unreachedCap = 10_000

/** How long a server keeps a place that its process does not renew. */
const placeDuration = 30_000

/** What was admitted in this period or in the one before is held. */
const period = 600_000

// The window of each quota; null for concurrent requests.
const zoned = 'budget.microdollars.day.Europe/Berlin'
const windows: Record<string, number | null> = {
  default: minute,
  'chat.requests.hour': hour,
  'chat.tokens.day': day,
  'team.tokens.hour': hour,
  [zoned]: 25 * hour,
  'streams.concurrent': null,
  'jobs.concurrent': null
}

/** The unit of a quota, which its counters name. */
function unitOf (counters: string): string {
  if (windows[counters] === null) return 'concurrent-requests'
  return counters.split('.')[1] ?? 'requests'
}

// The days of the time zone end after the time of a server's clock, so that `list` finds their
// windows open.
const firstDay = Date.now() + 10 * day

// Gaps lie on and around every boundary of the rules.
const boundaries = [minute, period, hour, day, 25 * hour].flatMap((window) => [
  window,
  window + minute,
  window + 2 * minute
])
const anyGap = fc.oneof(
  { weight: 60, arbitrary: fc.constantFrom(0, 0, 0, 1, 1_000) },
  {
    weight: 5,
    arbitrary: fc
      .tuple(
        fc.constantFrom(minute, 2 * minute, 3 * minute, 2 * period, ...boundaries),
        fc.constantFrom(-1, 0, 1)
      )
      .map(([gap, more]) => gap + more)
  },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 130_000 }) }
)

const keys = Array.from({ length: 7 }, (_, index) =>
  String(callerKey(localAuthentication(`caller ${index}`)))
)

const amount = fc.oneof(
  { weight: 4, arbitrary: fc.constant(1) },
  { weight: 3, arbitrary: fc.constantFrom(0, 2, 3, 300) },
  // All that a walk counts stays below the largest integer.
  fc.constant(2 ** 42)
)

const drawnDemand = fc.record({
  counters: fc.constantFrom(...Object.keys(windows)),
  caller: fc.constantFrom(...keys),
  limit: fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 8 }) },
    fc.constantFrom(1_000, largest, largest - 1)
  ),
  least: amount,
  // What the most is above the least.
  more: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 5 }), amount),
  isEstimate: fc.boolean(),
  // How far the clock of the process that sends the demand is behind, or the time zone of a caller
  // who has changed it.
  late: fc.constantFrom(0, 0, 0, 1_000, hour, 10 * hour)
})
type DrawnDemand = typeof drawnDemand extends fc.Arbitrary<infer Value> ? Value : never

const drawnStep = fc.record({
  gap: anyGap,
  demands: fc.uniqueArray(drawnDemand, {
    minLength: 1,
    maxLength: 4,
    selector: ({ counters }) => counters
  }),
  kind: fc.oneof(
    { weight: 200, arbitrary: fc.constant('acquire' as const) },
    { weight: 60, arbitrary: fc.constant('peek' as const) },
    { weight: 90, arbitrary: fc.constant('settle' as const) },
    { weight: 16, arbitrary: fc.constantFrom('forget' as const, 'list' as const) },
    { weight: 1, arbitrary: fc.constant('clear' as const) }
  ),
  // Which of the latest acquisitions is settled, and with what.
  which: fc.nat({ max: 20 }),
  used: fc.constantFrom(0, 1, 2, 3, 250, 2 ** 41),
  once: fc.constantFrom(undefined, undefined, 'a', 'b')
})
type DrawnStep = typeof drawnStep extends fc.Arbitrary<infer Value> ? Value : never

interface Comparison {
  /** Creates an empty store. */
  readonly create: (
    options: QuotaStoreContractOptions
  ) => Required<QuotaStore> | Promise<Required<QuotaStore>>
  readonly walks: number
  readonly length?: number
  /** Whether requests at the same time are sent together, without waiting for results. */
  readonly areTogether?: boolean
  /** Whether places end with the virtual time. Then all are settled before. */
  readonly placesEnd?: boolean
  /** Whether the store has a caller cap, an overflow counter and sweeps, as in one process. */
  readonly hasSweeps?: boolean
}

/** An acquisition of both stores that was counted. */
interface Acquired {
  readonly number: number
  readonly actual: Acquisition
  readonly expected: Acquisition
  readonly demand: Demand
  readonly time: number
  timesSettled: number
  /** What it still counts. */
  left: number
}

/** How often each outcome was seen. */
class Seen {
  admitted = 0
  rejected = 0
  rejectedWithRoom = 0
  grantedLess = 0
  held = 0
  overflow = 0
  places = 0
  peeked = 0
  settledLess = 0
  settledMore = 0
  settledAgain = 0
  settledOnce = 0
  notSettledOnce = 0
  settledLate = 0
  listed = 0
  sweeps = 0
}

/**
 * Compares a store with the reference on random walks, with random caller caps if it has one.
 * Returns how often each outcome was seen.
 */
export async function compareWithReference (comparison: Comparison): Promise<Seen> {
  const { create, walks, length = 500, hasSweeps = false } = comparison
  const seen = new Seen()
  const drawnWalk = fc.record({
    maxTrackedCallers: hasSweeps ? fc.integer({ min: 1, max: 6 }) : fc.constant(unreachedCap),
    steps: fc.array(drawnStep, { minLength: length, maxLength: length, size: 'max' })
  })
  await assertProperty(
    fc.asyncProperty(drawnWalk, async ({ maxTrackedCallers, steps }) => {
      const clock = new VirtualClock()
      clock.advance(start)
      const store = await create({ clock: clock.now, maxTrackedCallers })
      const walk = new Walk(store, clock, maxTrackedCallers, comparison, seen)
      for (const step of steps) await walk.take(step)
      await walk.end()
    }),
    { numRuns: walks }
  )
  return seen
}

/** A random walk of a store and the reference. */
class Walk {
  readonly #store: Required<QuotaStore>
  readonly #reference: ReferenceStore
  readonly #clock: VirtualClock
  readonly #areTogether: boolean
  readonly #placesEnd: boolean
  readonly #hasSweeps: boolean
  readonly #seen: Seen
  /** The time of the reference's clock. */
  #time = start
  /** Comparisons of what was asked, in its order. */
  #pending: (() => Promise<void>)[] = []
  #acquired: Acquired[] = []
  #numberOfAcquired = 0
  /** When the first of the places ends. */
  #placeEnd = Infinity

  constructor (
    store: Required<QuotaStore>,
    clock: VirtualClock,
    maxTrackedCallers: number,
    { areTogether = false, placesEnd = false, hasSweeps = false }: Comparison,
    seen: Seen
  ) {
    this.#store = store
    this.#clock = clock
    this.#reference = new ReferenceStore({ clock: () => this.#time, maxTrackedCallers })
    this.#areTogether = areTogether
    this.#placesEnd = placesEnd
    this.#hasSweeps = hasSweeps
    this.#seen = seen
  }

  async take ({ gap, kind, demands, which, used, once }: DrawnStep): Promise<void> {
    const [first] = demands
    if (first === undefined) return
    if (kind !== 'acquire' || gap > 0 || !this.#areTogether) await this.#compareAll()
    await this.#advance(gap, first.counters)
    if (kind === 'acquire') {
      this.#acquire(demands.map((drawn) => this.#demandOf(drawn)))
      return
    }
    const demand = this.#demandOf(first)
    if (kind === 'peek') this.#peek(demand)
    else if (kind === 'forget') this.#forget(demand)
    else if (kind === 'list') this.#list(demand.counters)
    else if (kind === 'clear') this.#clear()
    else await this.#settleOne(which, used, once)
    // A pool of connections keeps no order between what is sent together.
    await this.#compareAll()
  }

  async end (): Promise<void> {
    await this.#settlePlaces()
    for (const [counters, window] of Object.entries(windows)) {
      if (window !== null && this.#hasSweeps) this.#inspect(counters)
    }
    await this.#compareAll()
  }

  async #advance (gap: number, counters: string): Promise<void> {
    if (this.#placesEnd && this.#clock.now() + gap >= this.#placeEnd) await this.#settlePlaces()
    if (gap === 0) return
    if (windows[counters] !== null && this.#hasSweeps) this.#inspect(counters)
    await this.#compareAll()
    this.#clock.advance(gap)
  }

  async #compareAll (): Promise<void> {
    const pending = this.#pending
    this.#pending = []
    for (const compare of pending) await compare()
  }

  /**
   * Compares the result of the store, which was asked now, when it has come, with that of the
   * reference at the same time of its clock.
   */
  #whenDone<Result>(asked: Result | Promise<Result>, compare: (actual: Result) => void): void {
    const now = this.#clock.now()
    const result = Promise.resolve(asked)
    // The rejection is thrown below.
    result.catch(() => {})
    this.#pending.push(async () => {
      const actual = await result
      this.#time = now
      compare(actual)
    })
  }

  #demandOf ({ counters, caller, limit, least, more, isEstimate, late }: DrawnDemand): Demand {
    const window = windows[counters] ?? null
    const unit = unitOf(counters)
    const reference = unit === 'tokens' ? `a request of ${caller}` : null
    const ofCaller = { counters, callerKey: caller, limit, unit, reference }
    const base = { ...ofCaller, window, start: null, end: null }
    if (window === null) return { ...base, least: 1, most: 1, isEstimate: true }
    const cost = { least, most: least + more, isEstimate }
    if (counters !== zoned) return { ...base, ...cost }
    const days = Math.floor((this.#clock.now() - start - late) / day)
    const begins = firstDay + days * day + late
    return { ...base, ...cost, start: begins, end: begins + day }
  }

  #acquire (demands: readonly Demand[]): void {
    if (demands.some(({ window }) => window === null)) {
      this.#placeEnd = Math.min(this.#placeEnd, this.#clock.now() + placeDuration)
    }
    this.#whenDone(this.#store.acquire(demands), (acquisitions) => {
      // A demand that was not asked reaches no counter.
      const asked = demands.filter((_, index) => acquisitions[index] !== null)
      const actual = acquisitions.filter((acquisition) => acquisition !== null)
      const expected = this.#reference.acquire(asked)
      deepStrictEqual(actual.map(fieldsOf), expected.map(fieldsOf))
      const isAdmitted = expected.every(({ admitted }) => admitted)
      ok(
        asked.length === demands.length || !isAdmitted,
        'a demand was not asked although the others have room'
      )
      this.#see(expected, isAdmitted)
      if (!isAdmitted) return
      for (const [index, demand] of asked.entries()) {
        const [ofStore, ofReference] = [actual[index], expected[index]]
        if (ofStore === undefined || ofReference === undefined) continue
        this.#numberOfAcquired += 1
        this.#acquired.push({
          number: this.#numberOfAcquired,
          actual: ofStore,
          expected: ofReference,
          demand,
          time: this.#time,
          timesSettled: 0,
          left: ofReference.granted
        })
        if (demand.window === null) this.#seen.places += 1
        if (ofReference.granted < demand.most) this.#seen.grantedLess += 1
      }
    })
  }

  #see (acquisitions: readonly Acquisition[], isAdmitted: boolean): void {
    if (isAdmitted) this.#seen.admitted += 1
    else this.#seen.rejected += 1
    if (!isAdmitted && acquisitions.some(({ admitted }) => admitted)) {
      this.#seen.rejectedWithRoom += 1
    }
    if (acquisitions.some(({ overflow }) => overflow === true)) this.#seen.overflow += 1
    if (acquisitions.some(({ held, count }) => held > 0 && held < count)) this.#seen.held += 1
  }

  /** Settles one of the latest acquisitions, which may have been settled before. */
  async #settleOne (which: number, used: number, once: string | undefined): Promise<void> {
    const acquired = this.#acquired.at(-1 - which)
    if (acquired === undefined) return
    if (acquired.demand.window === null) return this.#settle(acquired, 0)
    // A permit that is handed over has a text of its own.
    const text = once && `${once} of ${acquired.number}`
    await this.#settle(acquired, used, text)
  }

  /** Gives back what is still counted and was not used. */
  async #settle (acquired: Acquired, used: number, once?: string): Promise<void> {
    const { actual, expected, demand, time, left } = acquired
    const less = {
      count: Math.max(0, left - used),
      held: demand.isEstimate ? expected.granted : 0
    }
    const applied = await this.#store.settle(actual.receipt, less, once)
    this.#time = this.#clock.now()
    const isExpected = this.#reference.settle(expected.receipt, less, once)
    if (once !== undefined) {
      deepStrictEqual(applied, isExpected, `the result of a settlement with ${once}`)
      if (isExpected) this.#seen.settledOnce += 1
      else this.#seen.notSettledOnce += 1
    }
    if (isExpected && demand.window !== null) acquired.left -= less.count
    acquired.timesSettled += 1
    if (this.#time - time >= 2 * period) this.#seen.settledLate += 1
    if (acquired.timesSettled > 1) this.#seen.settledAgain += 1
    if (used < left) this.#seen.settledLess += 1
    if (used > left) this.#seen.settledMore += 1
  }

  async #settlePlaces (): Promise<void> {
    await this.#compareAll()
    for (const acquired of this.#acquired) {
      if (acquired.demand.window === null) await this.#settle(acquired, 0)
    }
    this.#acquired = this.#acquired.filter(({ demand }) => demand.window !== null)
    this.#placeEnd = Infinity
  }

  #peek (demand: Demand): void {
    this.#whenDone(this.#store.peek(demand), (peeked) => {
      const expected = this.#reference.peek(demand)
      deepStrictEqual(peeked && fieldsOf(peeked), expected && fieldsOf(expected))
      if (peeked !== null) this.#seen.peeked += 1
    })
  }

  #forget ({ callerKey, counters }: Demand): void {
    this.#whenDone(this.#store.forget(counters, callerKey), () => {
      this.#reference.forget(counters, callerKey)
    })
  }

  #list (counters: string): void {
    this.#whenDone(listAll(this.#store, counters), (listed) => {
      deepStrictEqual(byCaller(listed), byCaller(this.#reference.list(counters).callers))
      this.#seen.listed += listed.length
    })
  }

  #clear (): void {
    this.#whenDone(this.#store.clearCounters(), () => {
      this.#reference.clearCounters()
    })
  }

  #inspect (counters: string): void {
    this.#whenDone(this.#store.inspect(counters), (state) => {
      deepStrictEqual({ ...state }, this.#reference.inspect(counters))
      if (state.sweeps !== undefined && state.sweeps > 0) this.#seen.sweeps += 1
    })
  }
}

/** Returns the callers of all pages. */
async function listAll (store: Required<QuotaStore>, counters: string): Promise<CallerCount[]> {
  const listed: CallerCount[] = []
  for (let page = await store.list(counters); ; page = await store.list(counters, page.cursor)) {
    listed.push(...page.callers)
    if (page.cursor === null) return listed
  }
}

function byCaller (callers: readonly CallerCount[]): Map<string, unknown> {
  const rows = callers.map(
    ({ callerKey, count, held, windowRemaining, end }): [string, unknown] => [
      callerKey,
      { count, held, windowRemaining, end }
    ]
  )
  return new Map(rows.sort(([one], [other]) => (one < other ? -1 : 1)))
}

/** The fields of a result that the contract names. */
function fieldsOf (result: QuotaCount & Partial<Acquisition>) {
  const { admitted, granted, count, held, windowRemaining, end, overflow = false } = result
  return { admitted, granted, count, held, windowRemaining, end, overflow }
}
