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

const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]
const { MAX_SAFE_INTEGER } = Number
const start = 1_000_000
const lease = 30_000

// The window of each quota; null for requests in flight.
const zoned = 'budget.microdollars.day.Europe/Berlin'
const windows: Record<string, number | null> = {
  default: minute,
  'chat.requests.hour': hour,
  'chat.tokens.day': day,
  [zoned]: 25 * hour,
  'streams.in-flight': null,
  'jobs.in-flight': null
}

// Days of the time zone end where the clock of a store with virtual time, and that of a server, are
// still before them.
const firstDay = Date.now() + 10 * day

// Gaps lie on and around every boundary of the rules.
const boundaries = [minute, hour, day, 25 * hour].flatMap((window) => [
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
        fc.constantFrom(minute, 2 * minute, 3 * minute, ...boundaries),
        fc.constantFrom(-1, 0, 1)
      )
      .map(([gap, more]) => gap + more)
  },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 130_000 }) }
)

const keys = Array.from({ length: 7 }, (_, index) =>
  String(callerKey(localAuthentication(`caller ${index}`)))
)
const demandOf = (counters: string) =>
  fc.record({
    counters: fc.constant(counters),
    caller: fc.constantFrom(...keys),
    limit: fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: 1, max: 5 }) },
      fc.constantFrom(1_000, MAX_SAFE_INTEGER, MAX_SAFE_INTEGER - 1)
    ),
    cost: fc.oneof(
      { weight: 4, arbitrary: fc.constant(1) },
      { weight: 2, arbitrary: fc.constantFrom(0, 2, 3, 300) },
      fc.constantFrom(2 ** 52, MAX_SAFE_INTEGER)
    ),
    // How far the clock of the process that sends the demand is behind.
    late: fc.constantFrom(0, 0, 0, 1_000, hour)
  })
type Drawn = typeof demandOf extends (counters: string) => fc.Arbitrary<infer Value> ? Value : never

const step = fc.record({
  gap: anyGap,
  demands: fc.uniqueArray(fc.constantFrom(...Object.keys(windows)).chain(demandOf), {
    minLength: 1,
    maxLength: 4,
    selector: ({ counters }) => counters
  }),
  kind: fc.oneof(
    { weight: 200, arbitrary: fc.constant('acquire' as const) },
    { weight: 60, arbitrary: fc.constant('peek' as const) },
    { weight: 60, arbitrary: fc.constant('release' as const) },
    { weight: 16, arbitrary: fc.constantFrom('forget' as const, 'list' as const) },
    { weight: 1, arbitrary: fc.constant('clear' as const) }
  ),
  // Which acquisition a release is for, and how much.
  which: fc.nat(),
  amount: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(1, 1, 2, 250) },
    fc.constantFrom(0, MAX_SAFE_INTEGER)
  )
})

interface Comparison {
  /** Creates an empty store. */
  readonly create: (
    options: QuotaStoreContractOptions
  ) => Required<QuotaStore> | Promise<Required<QuotaStore>>
  readonly walks: number
  readonly length?: number
  /** Whether requests at the same time are sent together, without waiting for results. */
  readonly areTogether?: boolean
  /**
   * Whether places are leases, which the virtual time would end. Then all are given back before.
   */
  readonly hasLeases?: boolean
}

/**
 * Compares a store with the reference on random walks, each with a random caller cap. Returns how
 * often each outcome was seen.
 */
export async function compareWithReference ({
  create,
  walks,
  length = 500,
  areTogether = false,
  hasLeases = false
}: Comparison) {
  const seen = {
    admitted: 0,
    rejected: 0,
    rejectedWithRoom: 0,
    overflow: 0,
    places: 0,
    peeked: 0,
    released: 0,
    listed: 0,
    sweeps: 0
  }
  const walk = fc.record({
    maxTrackedCallers: fc.integer({ min: 1, max: 6 }),
    steps: fc.array(step, { minLength: length, maxLength: length, size: 'max' })
  })
  await assertProperty(
    fc.asyncProperty(walk, async ({ maxTrackedCallers, steps }) => {
      const clock = new VirtualClock()
      clock.advance(start)
      const store = await create({ clock: clock.now, maxTrackedCallers })
      let time = start
      const reference = new ReferenceStore({ clock: () => time, maxTrackedCallers })
      const pending: (() => Promise<void>)[] = []
      let held: {
        readonly actual: Acquisition
        readonly expected: Acquisition
        readonly isPlace: boolean
      }[] = []
      let leasesEnd = Infinity

      const settle = async (): Promise<void> => {
        for (const compare of pending.splice(0)) await compare()
      }
      /**
       * Asks the store now, and the reference, at the same time of its clock, when the result has
       * come.
       */
      const ask = async <Result>(
        asked: Result | Promise<Result>,
        compare: (actual: Result) => void
      ): Promise<void> => {
        const now = clock.now()
        const result = Promise.resolve(asked)
        result.catch(() => {})
        pending.push(async () => {
          const actual = await result
          time = now
          compare(actual)
        })
      }
      const demandFor = ({ counters, caller, limit, cost, late }: Drawn): Demand => {
        const window = windows[counters] ?? null
        const end =
          counters === zoned
            ? firstDay + Math.floor((clock.now() - start - late) / day) * day
            : null
        return {
          counters,
          callerKey: caller,
          limit,
          cost: window === null ? 1 : Math.min(cost, limit),
          window,
          end
        }
      }
      const acquire = (demands: readonly Demand[]) =>
        ask(store.acquire(demands), (acquisitions) => {
          // A demand that was not asked reaches no counter.
          const asked = demands.filter((_, index) => acquisitions[index] !== null)
          const actual = acquisitions.filter((acquisition) => acquisition !== null)
          const expected = reference.acquire(asked)
          deepStrictEqual(actual.map(shown), expected.map(shown))
          const isAdmitted = expected.every(({ admitted }) => admitted)
          ok(
            asked.length === demands.length || !isAdmitted,
            'a demand was not asked although the others have room'
          )
          seen[isAdmitted ? 'admitted' : 'rejected'] += 1
          if (!isAdmitted && expected.some(({ admitted }) => admitted)) seen.rejectedWithRoom += 1
          if (expected.some(({ overflow }) => overflow)) seen.overflow += 1
          if (!isAdmitted) return
          for (const [index, acquisition] of actual.entries()) {
            const isPlace = asked[index]?.window === null
            if (isPlace) seen.places += 1
            held.push({ actual: acquisition, expected: expected[index] ?? acquisition, isPlace })
          }
        })
      const release = async (
        { actual, expected, isPlace }: (typeof held)[number],
        amount: number
      ): Promise<void> => {
        const given = isPlace ? 1 : amount
        await store.release(actual, given)
        time = clock.now()
        reference.release(expected, given)
        seen.released += 1
      }
      const releasePlaces = async (): Promise<void> => {
        await settle()
        for (const each of held.filter(({ isPlace }) => isPlace)) await release(each, 1)
        held = held.filter(({ isPlace }) => !isPlace)
        leasesEnd = Infinity
      }
      const inspect = (counters: string) =>
        ask(store.inspect(counters), (state) => {
          deepStrictEqual({ ...state }, reference.inspect(counters))
          if (state.sweeps > 0) seen.sweeps += 1
        })
      for (const { gap, kind, demands: drawn, which, amount } of steps) {
        const [first] = drawn
        if (first === undefined) continue
        if (kind !== 'acquire' || gap > 0 || !areTogether) await settle()
        if (hasLeases && clock.now() + gap >= leasesEnd) await releasePlaces()
        if (gap > 0) {
          if (windows[first.counters] !== null) await inspect(first.counters)
          await settle()
          clock.advance(gap)
        }
        const demand = demandFor(first)
        if (kind === 'acquire') {
          const demands = drawn.map(demandFor)
          if (demands.some(({ window }) => window === null)) {
            leasesEnd = Math.min(leasesEnd, clock.now() + lease)
          }
          await acquire(demands)
        } else if (kind === 'peek') {
          await ask(store.peek(demand), (peeked) => {
            const expected = reference.peek(demand)
            deepStrictEqual(peeked && shown(peeked), expected && shown(expected))
            if (peeked !== null) seen.peeked += 1
          })
        } else if (kind === 'release') {
          await settle()
          const each = held[which % held.length]
          // A place or a cost that was given back is given back again at times, without effect.
          if (each !== undefined) await release(each, amount)
        } else if (kind === 'forget') {
          await ask(store.forget(demand.callerKey, demand.counters), () => {
            reference.forget(demand.callerKey, demand.counters)
          })
        } else if (kind === 'list') {
          await settle()
          await ask(listAll(store, demand.counters), (listed) => {
            deepStrictEqual(byCaller(listed), byCaller(reference.list(demand.counters).callers))
            seen.listed += listed.length
          })
        } else {
          await ask(store.clearCounters(), () => {
            reference.clearCounters()
          })
        }
        // A pool of connections keeps no order between what is sent together.
        if (kind !== 'acquire') await settle()
      }
      await releasePlaces()
      for (const each of Object.keys(windows)) if (windows[each] !== null) await inspect(each)
      await settle()
    }),
    { numRuns: walks }
  )
  return seen
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
  const rows = callers.map(({ callerKey, count, windowRemaining }): [string, unknown] => [
    callerKey,
    { count, windowRemaining }
  ])
  return new Map(rows.sort(([one], [other]) => (one < other ? -1 : 1)))
}

/** The fields of a result that the contract names. */
function shown ({
  count,
  windowRemaining,
  end,
  overflow,
  ...rest
}: QuotaCount & Partial<Acquisition>) {
  return {
    ...('admitted' in rest && { admitted: rest.admitted }),
    count,
    windowRemaining,
    end,
    overflow
  }
}
