// What can happen next in a simulation, and how often.
import fc from 'fast-check'
import type { Step } from './world.js'

const small = fc.nat({ max: 7 })
const process = fc.nat({ max: 1 })
const caller = fc.nat({ max: 2 })
const request = fc.nat({ max: 20 })
const times = [1, 100, 1_000, 6_000, 12_000, 31_000, 60_000]

const choices: readonly (readonly [weight: number, arbitrary: fc.Arbitrary<Step>])[] = [
  [
    6,
    fc.tuple(
      fc.constant('ask'),
      process,
      caller,
      fc.nat({ max: 2 }),
      fc.nat({ max: 4 }),
      fc.boolean()
    )
  ],
  [5, fc.tuple(fc.constant('report'), request, fc.nat({ max: 6 }))],
  [3, fc.tuple(fc.constant('end'), request)],
  [14, fc.tuple(fc.constant('deliver'), small)],
  [2, fc.tuple(fc.constantFrom('repeat', 'lose', 'reset'), small)],
  [1, fc.tuple(fc.constant('pass'), fc.constantFrom(...times))],
  [1, fc.tuple(fc.constantFrom('kill', 'start', 'lose all'), process)]
]

/** One step. */
export const stepOf: fc.Arbitrary<Step> = fc.oneof(
  ...choices.map(([weight, arbitrary]) => ({ weight, arbitrary }))
)

/** One step of those that lose no message for ever. */
export const stepWithoutLoss: fc.Arbitrary<Step> = stepOf.filter(
  ([kind]) => kind !== 'lose' && kind !== 'reset' && kind !== 'kill'
)
