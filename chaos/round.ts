import { setTimeout as sleep } from 'node:timers/promises'
import { callerKey, localAuthentication } from '../lib/index.js'
import { Stopwatch, type Duration } from './duration.js'
import type { Draw } from './incident.js'
import type { InstanceReport } from './instance-process.js'
import { Load } from './load.js'
import { clientPatience } from './stores.js'
import type { World } from './world.js'

export type RoundIncident = ReturnType<Draw>

/** The result of the incidents of a round. */
export interface RoundResult {
  readonly requests: number
  readonly mostAdmitted: number
  readonly longestWait: Duration
  /** The time from the end of the faults until both instances shared counters again. */
  readonly backAfter: Duration
  /** How often the instances switched between their stores. */
  readonly changes: number
  /** The errors that made them switch to the fallback. */
  readonly reasons: readonly string[]
  readonly failures: readonly string[]
}

// The options of the instances' quota and of their insured stores.
export const limit = 5
const timeout = 100

// How long both instances may take after a fault to share counters again: the client's reconnection
// and the cool-down, and another one if a stall of the machine fails the first trial.
const backWithin = 3_000

// The tolerance for late responses, in addition to the time that processes wait for a processor.
const slack = 1_000

// How long to wait for an event before it counts as missing.
const patience = 15_000

/** Runs incidents that begin together under load, and checks the guarantees. */
export async function runRound (
  name: string,
  world: World,
  incidents: readonly RoundIncident[]
): Promise<RoundResult> {
  const before = await reports(world)
  const load = new Load(world.instances, name)
  await sleep(200)
  const losses = await Promise.all(
    incidents.map(async (incident) => {
      await incident.begin()
      await sleep(incident.lasts)
      return (await incident.end?.()) ?? 0
    })
  )
  const backAfter = await backToSharedCount(name, world, load)
  await load.stop()
  const after = await reports(world)
  const mostWait = timeout + slack
  const failedCalls = after.flatMap(({ errors }, place) =>
    errors.slice(before[place]?.errors.length)
  )
  const decisions = (all: readonly InstanceReport[]): number =>
    sum(all.map((report) => report.decisions))
  const counted = decisions(after) - decisions(before)
  return {
    requests: load.requests,
    mostAdmitted: Math.max(...[...load.admitted.values()].map(({ length }) => length)),
    longestWait: load.longestWait,
    backAfter,
    changes:
      sum(after.map(({ changes }) => changes.length)) -
      sum(before.map(({ changes }) => changes.length)),
    reasons: [...new Set(failedCalls.map(({ message }) => message))],
    failures: [
      ...load.failures,
      ...(counted === load.requests
        ? []
        : [`${counted} of ${load.requests} requests were decided by a store`]),
      ...[...load.admitted].flatMap(([caller, counts]) =>
        wronglyCounted(caller, counts, after, sum(losses))
      ),
      ...after.flatMap(wronglyReported),
      ...failedCalls
        .filter(
          ({ shard, message }) =>
            !incidents.some(({ servers }) => servers.has(shard)) &&
            !message.startsWith('no response within') &&
            load.longestWait.wall < clientPatience
        )
        .map(({ shard, message }) => `server ${shard} had no fault, and failed with: ${message}`),
      ...(backAfter.own > backWithin
        ? [`the shared count was back ${Math.round(backAfter.own)} ms after the fault`]
        : []),
      ...(load.longestWait.own > mostWait
        ? [`a request waited for ${Math.round(load.longestWait.own)} ms`]
        : [])
    ]
  }
}

function reports (world: World): Promise<InstanceReport[]> {
  return Promise.all(world.instances.map((instance) => instance.report()))
}

const sum = (numbers: readonly number[]): number =>
  numbers.reduce((total, number) => total + number, 0)

/**
 * Sends requests of new callers until both instances together admit each of them up to one limit.
 */
async function backToSharedCount (name: string, world: World, load: Load): Promise<Duration> {
  const stopwatch = new Stopwatch()
  for (let attempt = 0; stopwatch.duration.own < patience; attempt++) {
    const newcomer = `${name}, newcomer ${attempt}`
    for (let turn = 0; turn <= limit; turn++) {
      for (const instance of world.instances) await load.ask(instance, newcomer)
    }
    const states = (await reports(world)).map(({ state }) => state)
    if (
      load.admitted.get(newcomer)?.length === limit &&
      states.every((state) => state === 'primary')
    ) {
      return stopwatch.duration
    }
    await sleep(20)
  }
  return { wall: Infinity, own: Infinity }
}

/**
 * Checks how often a caller was admitted. Each fallback admits one limit at most, and so do the
 * servers, once more for each time that they lost their counts. A count can come twice: a server
 * gives back what it counted for a request that the fallback has decided on since.
 */
function wronglyCounted (
  caller: string,
  counts: readonly number[],
  reports: readonly InstanceReport[],
  losses: number
): string[] {
  const key = String(callerKey(localAuthentication(caller)))
  const byFallbacks = reports.map(({ admittedByFallback }) => admittedByFallback[key] ?? 0)
  const byServers = counts.length - sum(byFallbacks)
  return [
    ...byFallbacks
      .filter((admitted) => admitted > limit)
      .map((admitted) => `${caller} was admitted ${admitted} times by one fallback`),
    ...(byServers < 0 || byServers > limit * (1 + losses)
      ? [
          `${caller} was admitted ${byServers} times by the servers, which lost their ` +
            `counts ${losses} times`
        ]
      : []),
    ...counts
      .filter((count) => !(count >= 1 && count <= limit))
      .map((count) => `${caller} was admitted with the count ${count}`)
  ]
}

/**
 * Checks that each shard's changes alternate and are published once, and that the log shows each
 * of them once.
 */
function wronglyReported ({ changes, logged, unhandled }: InstanceReport): string[] {
  const shards = [...new Set(changes.map(({ shard }) => shard))]
  const ofShards = shards.map((shard) =>
    changes.filter((change) => change.shard === shard).map(({ to }) => to)
  )
  const published = changes.map(({ to }) => to).join(', ')
  return [
    ...ofShards
      .filter((all) => all.some((to, place) => to !== (place % 2 === 0 ? 'fallback' : 'primary')))
      .map((all) => `the published changes of a shard are ${all.join(', ')}`),
    ...(logged.join(', ') === published
      ? []
      : [`for the changes ${published} the log shows ${logged.join(', ')}`]),
    ...unhandled.map((reason) => `an unhandled rejection: ${reason}`)
  ]
}
