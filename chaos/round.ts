import { setTimeout as sleep } from 'node:timers/promises'
import { callerKey, localAuthentication } from '../lib/index.js'
import type { Incident } from './faults.js'
import type { InstanceReport } from './instance-process.js'
import { Load } from './load.js'
import type { World } from './world.js'

/** The result of one incident. */
export interface RoundResult {
  readonly requests: number
  /** Milliseconds from the end of the fault until both instances shared counters again. */
  readonly backAfter: number
  readonly mostAdmitted: number
  readonly longestWait: number
  /** The longest wait and `backAfter` without the time that processes waited for a processor, which is what the limits apply to. */
  readonly longestOwnWait: number
  readonly ownBackAfter: number
  /** How often the instances switched between their stores. */
  readonly changes: number
  /** The errors that made them switch to the fallback. */
  readonly reasons: readonly string[]
  readonly failures: readonly string[]
}

export interface RoundSettings {
  readonly limit: number
  /** The `timeout` of the insured stores. */
  readonly timeout: number
  /** How long both instances may take after a fault to share counters again, in milliseconds. */
  readonly backWithin: number
}

// The tolerance for late answers, in addition to the time that processes wait for a processor.
const slack = 1_000

// How long to wait for an event before it counts as missing.
const patience = 15_000

/** Runs one incident under load, and checks the guarantees. */
export async function runRound (name: string, world: World, incident: Incident, settings: RoundSettings): Promise<RoundResult> {
  const before = await reports(world)
  const load = new Load(world.instances, name, world.processorWaits)
  await sleep(200)
  await incident.begin(world)
  await sleep(incident.lasts)
  const losses = await incident.end?.(world) ?? 0
  const { backAfter, ownBackAfter } = await backToSharedCount(name, world, load, settings.limit)
  await load.stop()
  const after = await reports(world)
  const mostWait = settings.timeout + (incident.stalls ?? 0) + slack
  return {
    requests: load.requests,
    backAfter,
    mostAdmitted: Math.max(...[...load.answers.values()].map(({ admitted }) => admitted)),
    ownBackAfter,
    longestWait: load.longestWait,
    longestOwnWait: load.longestOwnWait,
    changes: sum(after, ({ published }) => published.length) - sum(before, ({ published }) => published.length),
    reasons: [...new Set(after.flatMap(({ reasons }, place) => reasons.slice(before[place]?.reasons.length)))],
    failures: [
      ...load.failures,
      ...admittedTooOften(load, after, settings.limit, losses),
      ...after.flatMap(reportedWrongly),
      ...(ownBackAfter > settings.backWithin ? [`the shared count was back ${Math.round(ownBackAfter)} ms after the fault`] : []),
      ...(load.longestOwnWait > mostWait ? [`a request waited for ${Math.round(load.longestOwnWait)} ms`] : [])
    ]
  }
}

function reports (world: World): Promise<InstanceReport[]> {
  return Promise.all(world.instances.map((instance) => instance.report()))
}

function sum (reports: readonly InstanceReport[], count: (report: InstanceReport) => number): number {
  return reports.reduce((total, report) => total + count(report), 0)
}

/** Sends requests of new callers until both instances together admit each of them up to one limit. */
async function backToSharedCount (name: string, world: World, load: Load, limit: number): Promise<{ backAfter: number, ownBackAfter: number }> {
  const endedAt = performance.now()
  const result = () => {
    const backAfter = performance.now() - endedAt
    return { backAfter, ownBackAfter: backAfter - world.processorWaits.since(endedAt) }
  }
  for (let attempt = 0; result().ownBackAfter < patience; attempt++) {
    const newcomer = `${name}, newcomer ${attempt}`
    let admitted = 0
    for (let turn = 0; turn <= limit; turn++) {
      for (const instance of world.instances) if (await load.ask(instance, newcomer)) admitted += 1
    }
    const states = (await reports(world)).map(({ state }) => state)
    if (admitted === limit && states.every((state) => state === 'primary')) return result()
    await sleep(20)
  }
  return { backAfter: Infinity, ownBackAfter: Infinity }
}

/** The number of requests that may be admitted: one limit for the server and for each time that it lost its counts, and one for each fallback. */
function admittedTooOften (load: Load, reports: readonly InstanceReport[], limit: number, losses: number): string[] {
  return [...load.answers].flatMap(([caller, { admitted }]) => {
    const key = String(callerKey(localAuthentication(caller)))
    const byFallbacks = reports.map(({ admittedByFallback }) => admittedByFallback[key] ?? 0)
    const byPrimary = byFallbacks.reduce((rest, count) => rest - count, admitted)
    return [
      ...byFallbacks.filter((count) => count > limit).map((count) => `${caller} was admitted ${count} times by one fallback`),
      ...(byPrimary > limit * (1 + losses) ? [`${caller} was admitted ${byPrimary} times by the server, which lost its counts ${losses} times`] : [])
    ]
  })
}

/** Checks that each change is published once and logged once, and that the stores alternate. */
function reportedWrongly ({ published, logged, unhandled }: InstanceReport): string[] {
  const expected = published.map((_state, place) => place % 2 === 0 ? 'fallback' : 'primary')
  const lines = expected.map((state) => state === 'fallback' ? 'the quota\'s primary store fails; its fallback answers' : 'the quota\'s primary store answers again')
  return [
    ...(String(published) === String(expected) ? [] : [`the changes that were published are ${published.join(', ')}`]),
    ...(String(logged) === String(lines) ? [] : [`for ${published.length} changes the log holds: ${logged.join(' | ')}`]),
    ...unhandled.map((reason) => `an unhandled rejection: ${reason}`)
  ]
}
