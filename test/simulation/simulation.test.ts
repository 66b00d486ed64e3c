// Random steps of processes, servers and the network between them, with the real stores.
import fc from 'fast-check'
import t from 'tap'
import { assertProperty } from '../support/property.js'
import { stepOf, stepWithoutLoss } from './steps.js'
import { World, type Kind, type Step } from './world.js'

// How many runs of about 60 steps each kind of store has.
const walks = Number(process.env.RANDOM_WALKS ?? 20)
const mostSteps = 120

async function simulate (kind: Kind, steps: readonly Step[]): Promise<void> {
  const world = new World(kind)
  try {
    await world.start()
    for (const each of steps) await world.run(each)
    await world.finish()
  } finally {
    world.stop()
  }
}

const kinds: Record<Kind, string> = {
  shared: 'a shared store counts what was used',
  'two stores': 'a store made of two counts what was used',
  insured: 'an insured store counts what was used, or its fallback',
  'at the cap': 'callers who share the overflow counter count what they used',
  permits: 'permits settle what they were granted and charged'
}

for (const kind of ['shared', 'two stores', 'insured', 'at the cap', 'permits'] as const) {
  for (const [what, step] of [['', stepOf], [' that lose nothing', stepWithoutLoss]] as const) {
    t.test(`in random steps${what}, ${kinds[kind]}`, async () => {
      const steps = fc.array(step, { minLength: 1, maxLength: mostSteps, size: 'max' })
      const property = fc.asyncProperty(steps, (each) => simulate(kind, each))
      await assertProperty(property, { numRuns: walks, endOnFailure: false })
    })
  }
}
