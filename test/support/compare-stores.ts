// Random walks through the state table, on which a store is compared with the plain store step by step.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import { callerKey, localAuthentication, type QuotaStore } from '../../lib/index.js'
import { VirtualClock, type QuotaStoreContractOptions } from '../../lib/testing.js'
import { PlainStore } from './plain-store.js'
import { assertProperty } from './property.js'

const windows: Record<string, number> = { default: 60_000, hourly: 3_600_000, daily: 86_400_000 }
const lease = 30_000
const { MAX_SAFE_INTEGER } = Number

// Gaps lie on and around every boundary of the rules.
const boundaries = Object.values(windows).flatMap((window) => [window, window + 60_000, window + 120_000])
const anyGap = fc.oneof(
  { weight: 60, arbitrary: fc.constantFrom(0, 0, 0, 1, 1_000) },
  { weight: 5, arbitrary: fc.tuple(fc.constantFrom(60_000, 120_000, 180_000, ...boundaries), fc.constantFrom(-1, 0, 1)).map(([gap, more]) => gap + more) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 130_000 }) }
)

// The keys of the last four callers start with the same digits as that of the first. The memory store finds counters by these digits.
const keys = ['alice', 'bob', 'carol', 'dave', 'erin', 'frank', 'grace', 'heidi'].map((username) => String(callerKey(localAuthentication(username))))
const caller = fc.constantFrom(...keys.map((key, index) => index < 4 ? key : String(keys[0]).slice(0, 4) + key.slice(4)))
const acquire = fc.record({
  kind: fc.constant('acquire' as const),
  caller,
  limit: fc.oneof({ weight: 6, arbitrary: fc.integer({ min: 1, max: 4 }) }, fc.constantFrom(MAX_SAFE_INTEGER, MAX_SAFE_INTEGER - 1)),
  cost: fc.oneof({ weight: 6, arbitrary: fc.constant(1) }, fc.constantFrom(0, 2, 1_000, 2 ** 52, MAX_SAFE_INTEGER))
})
const onCounter = fc.oneof(
  { weight: 150, arbitrary: acquire },
  { weight: 40, arbitrary: fc.record({ kind: fc.constantFrom('peek', 'peek', 'peek', 'peek', 'forget' as const), caller }) }
)
const onPlaces = fc.oneof(
  fc.record({ kind: fc.constant('enter' as const), caller, limit: fc.integer({ min: 0, max: 3 }) }),
  fc.record({ kind: fc.constant('leave' as const), which: fc.nat() })
)
const action = fc.oneof({ weight: 190, arbitrary: onCounter }, { weight: 60, arbitrary: onPlaces }, { weight: 1, arbitrary: fc.constant({ kind: 'clear' as const }) })

/** The steps of any walk. */
const anyStep = fc.record({ quota: fc.constantFrom('default', 'default', ...Object.keys(windows)), gap: anyGap, action })

/** Steps that use the counters of the default quota, with gaps of the given lengths. */
export const stepsWithGaps = (gap: fc.Arbitrary<number>): typeof anyStep => fc.record({ quota: fc.constant('default'), gap, action: onCounter })

interface Comparison {
  /** Creates an empty store. */
  readonly create: (options: QuotaStoreContractOptions) => QuotaStore | Promise<QuotaStore>
  readonly walks: number
  readonly length?: number
  readonly step?: typeof anyStep
  /** Whether the store gets the calls without waiting for results, because one connection keeps their order. */
  readonly isPipelined?: boolean
  /** Whether places are leases, which the virtual time would end. Then all are given back before. */
  readonly hasLeases?: boolean
  /** Makes time pass for a store that does not use the virtual clock. */
  readonly advance?: (ms: number) => unknown
  /** The length in milliseconds below which times are not compared. */
  readonly unit?: number
  readonly Model?: typeof PlainStore
}

/** Compares a store with the model on random walks, each with a random caller cap. Returns how often each outcome was seen. */
export async function compareWithModel ({ create, walks, length = 500, step = anyStep, isPipelined = false, hasLeases = false, advance, unit = 1, Model = PlainStore }: Comparison) {
  const seen = { admitted: 0, rejected: 0, overflow: 0, peeked: 0, entered: 0, sweeps: 0 }
  const walk = fc.record({ maxTrackedCallers: fc.integer({ min: 1, max: 6 }), steps: fc.array(step, { minLength: length, maxLength: length, size: 'max' }) })
  await assertProperty(fc.asyncProperty(walk, async ({ maxTrackedCallers, steps }) => {
    const clock = new VirtualClock()
    clock.advance(1_000_000)
    const options = { clock: clock.now, maxTrackedCallers }
    const stores = [await create(options), new Model(options)]
    const pending: [unknown, unknown][] = []
    const same = (actual: unknown, expected: unknown): void => {
      deepStrictEqual(comparable(actual, unit), comparable(expected, unit))
      count(expected)
    }
    const compare = async (): Promise<void> => { for (const [actual, expected] of pending.splice(0)) same(await actual, expected) }
    const ask = async (quota: string, question: (store: QuotaStore) => unknown): Promise<void> => {
      const [actual, expected] = stores.map((store) => question(quota === 'default' ? store : store.quota?.(quota, windows[quota] ?? 0) ?? store))
      if (!(actual instanceof Promise)) {
        same(actual, expected)
        return
      }
      pending.push([actual, expected])
      if (!isPipelined) await compare()
    }
    const entries: Entering[][] = []
    const leave = async (entered: Entering[][]): Promise<void> => {
      if (pending.length > 0) await compare()
      for (const pair of entered) for (const entry of pair) await (await entry)?.leave?.()
    }
    let leasesEnd = Infinity
    for (const { quota, gap, action } of steps) {
      if (hasLeases && clock.now() + gap >= leasesEnd) await leave(entries.splice(0))
      if (entries.length === 0) leasesEnd = Infinity
      if (gap > 0) {
        await ask(quota, (store) => store.inspect?.())
        clock.advance(gap)
        if (advance !== undefined) pending.push([Promise.resolve(advance(gap)).then(() => 'advanced'), 'advanced'])
      }
      if (action.kind === 'enter') {
        const pair: Entering[] = []
        await ask(quota, (store) => pair[pair.push(store.enter?.(action.caller, action.limit)) - 1])
        entries.push(pair)
        leasesEnd = Math.min(leasesEnd, clock.now() + lease)
      } else if (action.kind === 'leave') await leave(entries.splice(action.which % (entries.length + 1), 1))
      else if (action.kind === 'acquire') await ask(quota, (store) => store.acquire(action.caller, action.limit, action.cost))
      else if (action.kind === 'peek') await ask(quota, (store) => store.peek?.(action.caller))
      else if (action.kind === 'clear') await ask('default', (store) => store.clearCounters?.())
      else await ask(quota, (store) => store.forget?.(action.caller))
    }
    for (const quota of Object.keys(windows)) await ask(quota, (store) => store.inspect?.())
    await leave(entries)
  }), { numRuns: walks })
  return seen

  function count (expected: unknown): void {
    const { admitted, overflow, windowRemaining, sweeps } = Object(expected)
    if (admitted !== undefined && windowRemaining === undefined) seen.entered += Number(admitted)
    else if (admitted !== undefined) seen[admitted === true ? 'admitted' : 'rejected'] += 1
    else if (windowRemaining !== undefined) seen.peeked += 1
    if (overflow === true) seen.overflow += 1
    if (sweeps > 0) seen.sweeps += 1
  }
}

type Entering = ReturnType<Required<QuotaStore>['enter']> | undefined

/** A result without its function, and with its time in units. */
function comparable (result: unknown, unit: number): unknown {
  if (result === null || typeof result !== 'object') return result
  if ('windowRemaining' in result) return { ...result, windowRemaining: Math.ceil(Number(result.windowRemaining) / unit) }
  return 'admitted' in result ? { ...result, leave: 'leave' in result } : result
}
