// Random steps of processes, servers and the network between them, with the real stores.
import fc from 'fast-check'
import t from 'tap'
import { assertProperty } from '../support/property.js'
import { stepOf } from './steps.js'
import { World, type Faults, type Kind, type Step } from './world.js'

const walks = Number(process.env.RANDOM_WALKS ?? 150)
const stepsOfWalk = 60

async function simulate (kind: Kind, steps: readonly Step[], faults?: Faults): Promise<void> {
  const world = new World(kind, faults)
  try {
    for (const each of steps) await world.run(each)
    await world.finish()
  } finally {
    world.stop()
  }
}

const property = (kind: Kind, faults?: Faults) =>
  fc.asyncProperty(
    // Half as many on average.
    fc.array(stepOf, { minLength: 1, maxLength: 2 * stepsOfWalk, size: 'max' }),
    (steps) => simulate(kind, steps, faults)
  )

for (const kind of ['shared', 'two shards', 'insured'] as const) {
  t.test(`in ${walks * stepsOfWalk} random steps, a store that is ${kind} counts what was used`, async () => {
    await assertProperty(property(kind), { numRuns: walks, endOnFailure: false })
  })
}
