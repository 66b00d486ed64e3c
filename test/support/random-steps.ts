import fc from 'fast-check'
import { callerKey, localAuthentication } from '../../lib/index.js'

/** The windows of the quotas of a walk. The first is the default quota. */
export const windows = [60_000, 3_600_000, 86_400_000]

const gap = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(0, 0, 1, 1_000) },
  { weight: 3, arbitrary: fc.constantFrom(59_999, 60_000, 60_001) },
  { weight: 2, arbitrary: fc.constantFrom(119_999, 120_000, 120_001, 180_000, 3_600_000) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 130_000 }) }
)
const longGap = fc.constantFrom(...windows.flatMap((window) => [window - 1, window, window + 1, window + 59_999, window + 60_000, window + 60_001]))

// Eight callers. The keys of the last four start with the same digits as that of the first.
const keys = ['alice', 'bob', 'carol', 'dave', 'erin', 'frank', 'grace', 'heidi'].map((username) => String(callerKey(localAuthentication(username))))
const sharedDigits = keys[0]?.slice(0, 4) ?? ''
const caller = fc.constantFrom(...keys.map((key, index) => index < 4 ? key : sharedDigits + key.slice(sharedDigits.length)))

const acquire = fc.record({
  kind: fc.constant('acquire' as const),
  gap,
  caller,
  limit: fc.oneof({ weight: 5, arbitrary: fc.integer({ min: 1, max: 4 }) }, fc.constant(Number.MAX_SAFE_INTEGER))
})
const peek = fc.record({ kind: fc.constant('peek' as const), gap, caller })
const forget = fc.record({ kind: fc.constant('forget' as const), caller })
const clear = fc.record({ kind: fc.constant('clear' as const) })
const enter = fc.record({ kind: fc.constant('enter' as const), caller, limit: fc.integer({ min: 0, max: 3 }) })
const leave = fc.record({ kind: fc.constant('leave' as const), index: fc.nat() })

// Gaps lie on and around every boundary of the rules.
const step = fc.oneof(
  { weight: 150, arbitrary: acquire },
  { weight: 40, arbitrary: peek },
  { weight: 9, arbitrary: forget },
  { weight: 1, arbitrary: clear }
)

const stepOfQuotas = fc.record({
  quota: fc.nat({ max: windows.length - 1 }),
  cost: fc.constantFrom(0, 1, 1, 1, 2, 1_000, 2 ** 52),
  pause: fc.oneof({ weight: 40, arbitrary: fc.constant(0) }, longGap),
  step: fc.oneof({ weight: 200, arbitrary: step }, { weight: 30, arbitrary: enter }, { weight: 20, arbitrary: leave })
})

/** Random walks of exactly `length` steps through the state table, each with a random caller cap. */
export const walks = (length: number) => walksOf(step, length)

/** Random walks of exactly `length` steps through several quotas, with costs and requests in flight, each with a random caller cap. */
export const walksOfQuotas = (length: number) => walksOf(stepOfQuotas, length)

function walksOf<Step> (step: fc.Arbitrary<Step>, length: number) {
  return fc.record({
    maxTrackedCallers: fc.integer({ min: 1, max: 6 }),
    steps: fc.array(step, { minLength: length, maxLength: length, size: 'max' })
  })
}
