import { Random } from './random.js'
import { runRound, type RoundIncident, type RoundSettings } from './round.js'
import { World } from './world.js'

export interface ChaosSettings extends Partial<RoundSettings> {
  /** The seed, which determines the faults, their order and their parameters. */
  readonly seed: number
  readonly seconds: number
  /** The client of the instances. */
  readonly client: string
  /** The names of the faults to draw from. Default: all. */
  readonly faults?: readonly string[] | undefined
  /** Called with one line for each round. */
  readonly log: (line: string) => void
}

/** Runs two instances under faults until the time is over. Returns all broken guarantees. */
export async function runChaos ({ seed, seconds, client, faults, log, limit = 5, timeout = 100, backWithin = 2_000 }: ChaosSettings): Promise<string[]> {
  const random = new Random(seed)
  const givesTime = random.pick([true, false])
  log(`seed ${seed}, client ${client}; ${givesTime ? 'the instances give' : 'the server gives'} the time of the counters`)
  const world = await World.start({ client, limit, givesTime })
  const failures: string[] = []
  try {
    const incidents = drawIncidents(random, world, faults)
    const endsAt = performance.now() + seconds * 1_000
    for (let round = 1; performance.now() < endsAt; round++) {
      const drawn = incidents.next().value
      const result = await runRound(`round ${round}`, world, drawn, { limit, timeout, backWithin })
      log(`round ${round}: ${drawn.map(({ description }) => description).join('; and ')}: ${result.requests} requests, ${result.changes} changes, ` +
        `at most ${result.mostAdmitted} admitted of a caller, longest wait ${shown(result.longestWait)}, shared count back after ${shown(result.backAfter)}` +
        (result.reasons.length > 0 ? `; ${result.reasons.join(', ')}` : ''))
      for (const failure of result.failures) log(`  FAILED: ${failure}`)
      failures.push(...result.failures)
    }
  } finally {
    await world.stop()
  }
  return failures
}

const shown = ({ wall, own }: { readonly wall: number, readonly own: number }): string => `${Math.round(wall)} ms (${Math.round(own)} on a machine of its own)`

/** Yields each fault once in random order, and then again in another order. About half of them come together with a fault of an instance. */
function * drawIncidents (random: Random, world: World, chosen: readonly string[] | undefined): Generator<RoundIncident[], never> {
  const others = Object.values(world.instanceFaults)
  const all = Object.entries({ ...world.faults, ...world.instanceFaults })
  const draws = all.filter(([name]) => chosen?.includes(name) ?? true).map(([, draw]) => draw)
  if (draws.length === 0) throw new RangeError(`there are these faults: ${all.map(([name]) => name).join(', ')}`)
  while (true) {
    for (const draw of random.shuffle(draws)) {
      const isAlone = random.pick([true, false]) || others.includes(draw)
      yield isAlone ? [draw(random)] : [draw(random), random.pick(others)(random)]
    }
  }
}
