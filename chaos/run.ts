// npm run chaos: runs two instances with real servers under what only these show: kills,
// failovers, freezes, eviction, servers that take no writes, and broken connections. Late
// and lost replies, stalled and killed processes, lost counters and clocks that step are in
// test/stores.
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { placeDuration } from '../lib/store/shared/held-places.js'
import type { Duration } from './duration.js'
import { Random } from './random.js'
import { limit, runRound, type RoundIncident } from './round.js'
import { World } from './world.js'

const { values } = parseArgs({
  options: {
    // The seed determines the faults, their order and their parameters.
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 32)) },
    seconds: { type: 'string', default: '180' },
    client: { type: 'string', default: 'ioredis' },
    faults: { type: 'string' }
  }
})
const { client, seed, seconds } = values
const random = new Random(Number(seed))
console.log(`seed ${seed}, client ${client}`)
const world = await World.start({ client, limit })
let failures = 0
try {
  const incidents = drawIncidents(values.faults?.split(','))
  const endsAt = performance.now() + Number(seconds) * 1_000
  for (let round = 1; performance.now() < endsAt; round++) {
    const drawn = incidents.next().value
    const result = await runRound(`round ${round}`, world, drawn)
    console.log(
      `round ${round}: ${drawn.map(({ description }) => description).join('; and ')}: ` +
        `${result.requests} requests, ${result.changes} changes, ` +
        `at most ${result.mostAdmitted} admitted of a caller, longest wait ` +
        `${shown(result.longestWait)}, shared count back after ${shown(result.backAfter)}` +
        (result.reasons.length > 0 ? `; ${result.reasons.join(', ')}` : '')
    )
    for (const failure of result.failures) console.log(`  FAILED: ${failure}`)
    failures += result.failures.length
  }
  failures += await placesLeft()
} finally {
  await world.stop()
}
console.log(
  failures === 0
    ? 'everything was as promised'
    : `${failures} failures; to see them again: npm run chaos -- --seed ${seed} --client ` +
        `${client} --seconds ${seconds}`
)
process.exit(failures === 0 ? 0 : 1)

/**
 * Returns 1 unless all places are free 30 s after the last request: those of requests that have
 * ended, and those that calls have taken whose replies were lost.
 */
async function placesLeft (): Promise<number> {
  const latest = performance.now() + placeDuration + 1_000
  let callers = await world.callersWithPlaces()
  while (callers > 0 && performance.now() < latest) {
    await sleep(1_000)
    callers = await world.callersWithPlaces()
  }
  if (callers === 0) return 0
  console.log(`  FAILED: ${callers} callers have places 30 s after their last request`)
  return 1
}

function shown ({ wall, own }: Duration): string {
  return `${Math.round(wall)} ms (${Math.round(own)} on a machine of its own)`
}

/**
 * Yields each fault once in random order, and then again in another order. About half of those of
 * servers come together with a fault of a connection.
 */
function * drawIncidents (
  chosen: readonly string[] | undefined
): Generator<RoundIncident[], never> {
  const ofLinks = Object.values(world.linkFaults)
  const all = Object.entries({ ...world.serverFaults, ...world.linkFaults })
  const draws = all.filter(([name]) => chosen?.includes(name) ?? true).map(([, draw]) => draw)
  if (draws.length === 0) {
    throw new RangeError(`there are these faults: ${all.map(([name]) => name).join(', ')}`)
  }
  while (true) {
    for (const draw of random.shuffle(draws)) {
      const isAlone = random.pick([true, false]) || ofLinks.includes(draw)
      yield isAlone ? [draw(random)] : [draw(random), random.pick(ofLinks)(random)]
    }
  }
}
