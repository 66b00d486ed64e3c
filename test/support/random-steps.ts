import fc from 'fast-check'

/** One step of a random walk through the state table. Gaps lie on and around every boundary of the specification. */
type Step = { kind: 'acquire', gap: number, caller: string, limit: number } | { kind: 'clear' }

const gap = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(0, 0, 1, 1_000) },
  { weight: 3, arbitrary: fc.constantFrom(59_999, 60_000, 60_001) },
  { weight: 2, arbitrary: fc.constantFrom(119_999, 120_000, 120_001, 180_000, 3_600_000) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 130_000 }) }
)

const acquire = fc.record({
  kind: fc.constant('acquire' as const),
  gap,
  caller: fc.constantFrom(...'abcdefgh'),
  limit: fc.oneof({ weight: 5, arbitrary: fc.integer({ min: 1, max: 4 }) }, fc.constant(Number.MAX_SAFE_INTEGER))
})

/** Walks of exactly `length` steps, each with a cap of its own. */
export function walks (length: number) {
  const step: fc.Arbitrary<Step> = fc.oneof({ weight: 199, arbitrary: acquire }, { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear' as const) }) })
  return fc.record({
    maxTrackedCallers: fc.integer({ min: 1, max: 6 }),
    steps: fc.array(step, { minLength: length, maxLength: length, size: 'max' })
  })
}
