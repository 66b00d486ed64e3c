// Writes the second part of docs/benchmarks.md and its plots from the figures of a run.
import { writeFileSync } from 'node:fs'
import { writePart } from './document.js'
import type { Round } from './http/measure.js'
import { barPlots, linePlots, type Bar } from './plot.js'
import { median, quiet } from './statistics.js'

interface Growth {
  readonly callers: number
  readonly bytesBesideKey: number
  readonly sweepStaying: number
  readonly sweepGoing: number
  readonly sweepAtCap: number
  readonly decisionsPerSecond: number
}

/** The figures of a run, by scenario and server. */
export interface Results {
  readonly date: string
  readonly machine: string
  readonly versions: Record<string, string>
  readonly rounds: number
  /** How often each server was started. */
  readonly generations: number
  readonly seconds: number
  readonly memory: Record<string, Record<string, Round[]>>
  readonly shared: Record<string, Record<string, (Round & { serverCpu: number })[]>>
  readonly functions: { readonly floor: number[], readonly decision: number[] }
  readonly growth: Growth[]
}

const own = 'fastify-llm-quota'
const peers = ['@fastify/rate-limit', 'rate-limiter-flexible']

export function writeReport (results: Results): void {
  writeFileSync('docs/benchmarks-memory.svg', barPlots(Object.entries(results.memory).map(([scenario, servers]) => ({
    title: `${scenario}: CPU added to a bare request, µs`, bars: Object.keys(servers).filter((name) => name !== 'bare').map((name) => spread(name, cpus(servers, name), quiet(cpus(servers, 'bare'))))
  }))))
  writeFileSync('docs/benchmarks-shared.svg', barPlots(Object.entries(results.shared).map(([scenario, servers]) => ({
    title: `${scenario}: CPU of the Redis server per request, µs`, bars: Object.keys(servers).filter((name) => !name.startsWith('bare')).map((name) => spread(name, serverCpus(servers, name), 0))
  }))))
  const line = (name: string, value: (growth: Growth) => number) => ({ name, points: results.growth.map((growth) => [growth.callers, value(growth)] as const) })
  writeFileSync('docs/benchmarks-growth.svg', linePlots([
    { title: 'Memory per tracked caller without its key, bytes', xLabel: 'callers', logarithmic: true, series: [line('bytes', ({ bytesBesideKey }) => bytesBesideKey)] },
    { title: 'The longest pause of a sweep, ms of CPU time', xLabel: 'callers', logarithmic: true, series: [line('all stay', ({ sweepStaying }) => sweepStaying), line('all go', ({ sweepGoing }) => sweepGoing), line('at the cap', ({ sweepAtCap }) => sweepAtCap)] },
    { title: 'Decisions per second of CPU time, without HTTP and key', xLabel: 'callers', logarithmic: true, series: [line('decisions', ({ decisionsPerSecond }) => decisionsPerSecond)] }
  ]))
  writePart('times', document(results))
}

function cpus (servers: Record<string, readonly Round[]>, name: string): number[] {
  return (servers[name] ?? []).map(({ cpu }) => cpu)
}

function serverCpus (servers: Record<string, readonly { serverCpu: number }[]>, name: string): number[] {
  return (servers[name] ?? []).map(({ serverCpu }) => serverCpu)
}

/** Returns the additional CPU time of a server's requests compared with bare ones. */
function added (servers: Record<string, readonly Round[]>, name: string): number {
  return quiet(cpus(servers, name)) - quiet(cpus(servers, 'bare'))
}

function spread (name: string, figures: readonly number[], from: number): Bar {
  return { name, middle: quiet(figures) - from, least: Math.min(...figures) - from, most: median(figures) - from }
}

function fixed (figure: number, digits = 1): string {
  return Number.isFinite(figure) ? figure.toFixed(digits) : '-'
}

function range (figures: readonly number[], digits = 1): string {
  return `${fixed(median(figures), digits)} (${fixed(Math.min(...figures), digits)} to ${fixed(Math.max(...figures), digits)})`
}

/** Returns the measurement error: the maximum difference between the two bare servers in any scenario. */
function error ({ memory }: Results): number {
  return Math.max(...Object.values(memory).map((servers) => Math.abs(added(servers, 'bare again'))))
}

function serverError ({ shared }: Results): number {
  return Math.max(...Object.values(shared).map((servers) => Math.abs(added(servers, 'bare again'))))
}

function difference (microseconds: number, error: number): string {
  return Math.abs(microseconds) <= error ? 'no difference' : fixed(microseconds)
}

function memoryTable (servers: Record<string, readonly Round[]>, error: number): string {
  const rows = Object.entries(servers).map(([name, rounds]) =>
    `| ${name} | ${range(cpus(servers, name))} | ${name === 'bare' ? '' : difference(added(servers, name), error)} | ${requestRate(rounds)} |`)
  return `| server | CPU per request, µs | added to bare, µs | requests per second |\n|---|---:|---:|---:|\n${rows.join('\n')}`
}

function sharedTable (servers: Record<string, readonly (Round & { serverCpu: number })[]>, error: number): string {
  const rows = Object.entries(servers).map(([name, rounds]) => {
    const isBare = name.startsWith('bare')
    return `| ${name} | ${isBare ? '' : fixed(quiet(serverCpus(servers, name)), 2)} | ${isBare ? '' : range(serverCpus(servers, name), 2)} | ${name === 'bare' ? '' : difference(added(servers, name), error)} | ${requestRate(rounds)} |`
  })
  return `| HTTP server | Redis CPU per request, µs | median of the rounds, µs | client CPU added to bare, µs | requests per second |\n|---|---:|---:|---:|---:|\n${rows.join('\n')}`
}

function requestRate (rounds: readonly Round[]): string {
  const rates = rounds.map(({ requestsPerSecond }) => requestsPerSecond)
  return `${Math.round(median(rates))} (${Math.round(Math.min(...rates))} to ${Math.round(Math.max(...rates))})`
}

function figures ({ shared, functions, growth }: Results): string {
  const at = (callers: number) => growth.find((figures) => figures.callers === callers)
  const serverOf = (scenario: string, name: string) => quiet(serverCpus(shared[scenario] ?? {}, name))
  const ratios = functions.decision.map((value, round) => value / (functions.floor[round] ?? NaN))
  const million = at(1_000_000)
  const pause = Math.max(million?.sweepStaying ?? NaN, million?.sweepGoing ?? NaN, million?.sweepAtCap ?? NaN)
  const bytes = Math.max(at(10_000)?.bytesBesideKey ?? NaN, million?.bytesBesideKey ?? NaN)
  const admitted = 'admitted, without auto-pipelining'
  const rows = [
    ['key and acquire without HTTP', 'at most 1.3 times one SHA-256, one look-up, one clock read', `${range(ratios, 2)} times`, median(ratios) <= 1.3],
    ['memory per tracked caller without its key', 'at most 160 bytes', `${fixed(at(10_000)?.bytesBesideKey ?? NaN, 0)} bytes at 10,000 callers, ${fixed(million?.bytesBesideKey ?? NaN, 0)} at 1,000,000`, bytes <= 160],
    ['sweep of 1,000,000 callers', 'no request takes more than 5 ms of CPU time', `${fixed(million?.sweepStaying ?? NaN)} ms if all stay, ${fixed(million?.sweepGoing ?? NaN)} ms if all are removed, ${fixed(million?.sweepAtCap ?? NaN)} ms if all stay and a new caller comes first at the cap`, pause <= 5],
    ['shared store, admitted: server CPU', 'at most that of `rate-limiter-flexible`', `${fixed(serverOf(admitted, own) / serverOf(admitted, 'rate-limiter-flexible'), 2)} times; for a comparison with a bare script see [scaling.md](scaling.md)`, serverOf(admitted, own) <= serverOf(admitted, 'rate-limiter-flexible')]
  ] as const
  return `| what | aim | measured | |\n|---|---|---|---|\n${rows.map(([what, aim, measured, isReached]) => `| ${what} | ${aim} | ${measured} | ${isReached ? 'reached' : 'missed'} |`).join('\n')}`
}

function document (results: Results): string {
  const { date, machine, versions, rounds, generations, seconds, memory, shared, growth } = results
  return `## Times

Measured on ${date}: ${machine}, ${Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(', ')}. These figures are less reliable than the instructions above, because
they depend on the other load of the machine.

Every server is a separate process. The servers take turns in each round: ${rounds} rounds of ${seconds} s and 20 connections, in ${generations} consecutive processes, each after a warm-up round. *CPU per request* is the CPU time
of the server process: the median, the minimum and the maximum of the rounds. *Added to bare* is the difference between the means of the three lowest rounds of each.
This is also the end of a bar in the plots; the line of a bar goes from the lowest round to the median. *Requests per second* are the median, the minimum and the maximum.

As a control, the bare server is measured a second time as *bare again*. The maximum difference between the two in any scenario is ${fixed(error(results))} µs with the memory store and ${fixed(serverError(results))} µs of the
client with the shared store. A difference that is not larger is shown as "no difference".

### Aims

${figures(results)}

### Memory store

![CPU that each server adds to a bare request](benchmarks-memory.svg)

${Object.entries(memory).map(([scenario, servers]) => `#### ${scenario}\n\n${memoryTable(servers, error(results))}`).join('\n\n')}

In the scenario "at the cap, with overflow" there are 20,000 callers. This quota counts half of them with its overflow counter, \`@fastify/rate-limit\` forgets the oldest of them, and
\`rate-limiter-flexible\` keeps a counter and a timer for each.

### Shared store

![CPU of the Redis server per request](benchmarks-shared.svg)

${Object.entries(shared).map(([scenario, servers]) => `#### ${scenario}\n\n${sharedTable(servers, serverError(results))}`).join('\n\n')}

\`rate-limiter-flexible\` runs with \`inMemoryBlockOnConsumed\`, which avoids commands to the server as \`rememberRefusals\` does. The peers keep one key per caller, without a caller cap, an overflow
counter and sweeps.

### Growth of the memory store

![Memory, sweeps and decisions by number of callers](benchmarks-growth.svg)

| callers | bytes per caller without its key | all stay, ms | all go, ms | at the cap, ms | decisions per second |
|---:|---:|---:|---:|---:|---:|
${growth.map(({ callers, bytesBesideKey, sweepStaying, sweepGoing, sweepAtCap, decisionsPerSecond }) => `| ${callers.toLocaleString('en')} | ${fixed(bytesBesideKey, 0)} | ${fixed(sweepStaying, 2)} | ${fixed(sweepGoing, 2)} | ${fixed(sweepAtCap, 2)} | ${Math.round(decisionsPerSecond).toLocaleString('en')} |`).join('\n')}

The columns "all stay", "all go" and "at the cap" show the longest CPU time of one request after a sweep, including garbage collection, while the removed counters are deleted. In
the three cases, all counters stay; all are removed; and all stay at the caller cap while the first request is from a new caller. The figures are medians of several stores.

For ten minutes at full load with new callers beyond the cap, see [benchmarks-soak.md](benchmarks-soak.md).

### Where a peer is better

${whereAPeerIsBetter(results)}
`
}

function whereAPeerIsBetter (results: Results): string {
  const inMemory = Object.entries(results.memory).flatMap(([scenario, servers]) => peers
    .filter((peer) => peer in servers && added(servers, own) - added(servers, peer) > error(results))
    .map((peer) => `- ${scenario}: \`${peer}\` adds ${fixed(added(servers, peer))} µs, this quota ${fixed(added(servers, own))} µs.`))
  const onServer = Object.entries(results.shared).flatMap(([scenario, servers]) => peers
    .filter((peer) => quiet(serverCpus(servers, peer)) < quiet(serverCpus(servers, own)))
    .map((peer) => `- ${scenario}: \`${peer}\` takes ${fixed(quiet(serverCpus(servers, peer)), 2)} µs of the Redis server, this quota ${fixed(quiet(serverCpus(servers, own)), 2)} µs.`))
  const all = [...inMemory, ...onServer]
  return all.length === 0 ? 'In no scenario of this run.' : all.join('\n')
}
