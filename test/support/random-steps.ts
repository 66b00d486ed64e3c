import fc from 'fast-check'
import { callerKey, localAuthentication } from '../../lib/index.js'

/** One step of a random walk through the state table. Gaps lie on and around every boundary of the rules. */
type Step =
  | { kind: 'acquire', gap: number, caller: string, limit: number }
  | { kind: 'peek', gap: number, caller: string }
  | { kind: 'forget', caller: string }
  | { kind: 'clear' }

const gap = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(0, 0, 1, 1_000) },
  { weight: 3, arbitrary: fc.constantFrom(59_999, 60_000, 60_001) },
  { weight: 2, arbitrary: fc.constantFrom(119_999, 120_000, 120_001, 180_000, 3_600_000) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 130_000 }) }
)

// Eight callers. The keys of half of them start with the same digits as that of one other.
const names = ['alice', 'bob', 'carol', 'dave', 'erin', 'frank', 'grace', 'heidi']
const sharedDigits = keyOf('alice').slice(0, 4)
const caller = fc.constantFrom(...names.map((name) => name < 'e' ? keyOf(name) : sharedDigits + keyOf(name).slice(sharedDigits.length)))

const acquire = fc.record({
  kind: fc.constant('acquire' as const),
  gap,
  caller,
  limit: fc.oneof({ weight: 5, arbitrary: fc.integer({ min: 1, max: 4 }) }, fc.constant(Number.MAX_SAFE_INTEGER))
})

const peek = fc.record({ kind: fc.constant('peek' as const), gap, caller })
const forget = fc.record({ kind: fc.constant('forget' as const), caller })
const clear = fc.record({ kind: fc.constant('clear' as const) })

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 150, arbitrary: acquire },
  { weight: 40, arbitrary: peek },
  { weight: 9, arbitrary: forget },
  { weight: 1, arbitrary: clear }
)

/** Walks of exactly `length` steps, each with a random caller cap. */
export function walks (length: number) {
  return fc.record({
    maxTrackedCallers: fc.integer({ min: 1, max: 6 }),
    steps: fc.array(step, { minLength: length, maxLength: length, size: 'max' })
  })
}

function keyOf (username: string): string {
  return String(callerKey(localAuthentication(username)))
}
