import { setTimeout as sleep } from 'node:timers/promises'
import { clockFaults, instanceFaults, networkFaults, serverFaults, type Fault, type Incident } from './faults.js'
import { Random } from './random.js'
import { runRound, type RoundSettings } from './round.js'
import { World } from './world.js'

export interface ChaosSettings extends Partial<RoundSettings> {
  /** The seed, which determines the faults, their order and their parameters. */
  readonly seed: number
  readonly seconds: number
  /** The Redis client of the instances. */
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
  const incidents = drawIncidents(random, chooseFaults(givesTime, faults))
  const world = await World.start({ client, limit, givesTime })
  const failures: string[] = []
  const endsAt = performance.now() + seconds * 1_000
  try {
    for (let round = 1; performance.now() < endsAt; round++) {
      const incident = incidents.next().value
      const result = await runRound(`round ${round}`, world, incident, { limit, timeout, backWithin })
      log(`round ${round}: ${incident.description}: ${result.requests} requests, ${result.changes} changes, at most ${result.mostAdmitted} admitted of a caller, ` +
        `longest wait ${Math.round(result.longestWait)} ms (${Math.round(result.longestOwnWait)} on a machine of its own), shared count back after ${Math.round(result.backAfter)} ms (${Math.round(Math.max(0, result.ownBackAfter))})${result.reasons.length > 0 ? `; ${result.reasons.join(', ')}` : ''}`)
      for (const failure of result.failures) log(`  FAILED: ${failure}`)
      failures.push(...result.failures)
    }
  } finally {
    await world.stop()
  }
  return failures
}

function chooseFaults (givesTime: boolean, chosen: readonly string[] | undefined): Fault[] {
  const all: Record<string, Fault> = { ...serverFaults, ...networkFaults, ...instanceFaults, ...(givesTime && clockFaults) }
  const faults = Object.entries(all).filter(([name]) => chosen?.includes(name) ?? true).map(([, fault]) => fault)
  if (faults.length === 0) throw new RangeError(`there are these faults: ${Object.keys(all).join(', ')}`)
  return faults
}

/** Yields each fault once in random order, and then again in another order. About half of them come together with a fault of an instance. */
function * drawIncidents (random: Random, faults: readonly Fault[]): Generator<Incident, never> {
  while (true) {
    for (const fault of random.shuffle(faults)) {
      const incident = fault(random)
      const isAlone = random.pick([true, false]) || Object.values(instanceFaults).includes(fault)
      yield isAlone ? incident : together(incident, random.pick(Object.values(instanceFaults))(random))
    }
  }
}

/** Two faults that begin together. Each ends at its own time. */
function together (one: Incident, other: Incident): Incident {
  let otherEnded: Promise<number | undefined> | undefined
  return {
    description: `${one.description}; and ${other.description}`,
    lasts: one.lasts,
    stalls: other.stalls ?? 0,
    async begin (world) {
      await other.begin(world)
      otherEnded = sleep(other.lasts).then(() => other.end?.(world))
      await one.begin(world)
    },
    async end (world) {
      const losses = await one.end?.(world) ?? 0
      return losses + (await otherEnded ?? 0)
    }
  }
}
