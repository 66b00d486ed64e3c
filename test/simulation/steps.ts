// What can happen next in a simulation, and how often.
import fc from 'fast-check'
import type { Step } from './world.js'

const small = fc.nat({ max: 7 })
const oneOf = (...choices: [weight: number, arbitrary: fc.Arbitrary<Step>][]) =>
  fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })))
/** One step. */
export const stepOf: fc.Arbitrary<Step> = oneOf(
  [
    6,
    fc.tuple(
      fc.constant('ask'),
      fc.nat({ max: 1 }),
      fc.nat({ max: 2 }),
      fc.nat({ max: 2 }),
      fc.nat({ max: 4 }),
      fc.boolean()
    )
  ],
  [5, fc.tuple(fc.constant('report'), fc.nat({ max: 20 }), fc.nat({ max: 6 }))],
  [2, fc.tuple(fc.constant('extend'), fc.nat({ max: 20 }), fc.nat({ max: 3 }))],
  [3, fc.tuple(fc.constant('end'), fc.nat({ max: 20 }))],
  [14, fc.tuple(fc.constant('deliver'), small)],
  [1, fc.tuple(fc.constant('lose'), small)],
  [1, fc.tuple(fc.constant('repeat'), small)],
  [1, fc.tuple(fc.constant('reset'), small)],
  [1, fc.tuple(fc.constant('pass'), fc.constantFrom(1, 100, 1_000, 6_000, 12_000, 31_000, 60_000))],
  [1, fc.tuple(fc.constantFrom('crash', 'start'), fc.nat({ max: 1 }))],
  [1, fc.tuple(fc.constant('lose all'), fc.nat({ max: 1 }))],
  [1, fc.tuple(fc.constant('busy'), fc.nat({ max: 1 }), fc.nat({ max: 4 }))],
  [
    1,
    fc.tuple(
      fc.constant('set clock'),
      fc.nat({ max: 1 }),
      fc.constantFrom(-3_600_000, -40_000, -500, 500, 40_000, 3_600_000)
    )
  ]
)
