// Writes docs/benchmarks.md and its plots from the figures of a run.
import { writeFileSync } from 'node:fs'
import type { Round } from './http/measure.js'
import { barPlots, linePlots, type Bar } from './plot.js'
import { median, quiet } from './statistics.js'

interface Growth {
  readonly callers: number
  readonly bytes: number
  readonly sweepStaying: number
  readonly sweepGoing: number
  readonly sweepAtCap: number
  readonly decisionsPerSecond: number
}

/** The figures of a run, by scenario and subject. */
export interface Results {
  readonly date: string
  readonly machine: string
  readonly versions: Record<string, string>
  readonly rounds: number
  /** How often each subject was started anew. */
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
  writeFileSync('docs/benchmarks-memory.svg', barPlots(Object.entries(results.memory).map(([scenario, subjects]) => ({
    title: `${scenario}: CPU added to a bare request, µs`, bars: Object.keys(subjects).filter((name) => name !== 'bare').map((name) => spread(name, cpus(subjects, name), quiet(cpus(subjects, 'bare'))))
  }))))
  writeFileSync('docs/benchmarks-shared.svg', barPlots(Object.entries(results.shared).map(([scenario, subjects]) => ({
    title: `${scenario}: CPU of the Redis server a request, µs`, bars: Object.keys(subjects).filter((name) => name !== 'bare').map((name) => spread(name, serverCpus(subjects, name), 0))
  }))))
  const line = (name: string, value: (growth: Growth) => number) => ({ name, points: results.growth.map((growth) => [growth.callers, value(growth)] as const) })
  writeFileSync('docs/benchmarks-growth.svg', linePlots([
    { title: 'Memory a tracked caller, bytes', xLabel: 'callers', logarithmic: true, series: [line('bytes', ({ bytes }) => bytes)] },
    { title: 'The longest pause of a sweep, ms', xLabel: 'callers', logarithmic: true, series: [line('all stay', ({ sweepStaying }) => sweepStaying), line('all go', ({ sweepGoing }) => sweepGoing), line('at the cap', ({ sweepAtCap }) => sweepAtCap)] },
    { title: 'Decisions a second, without HTTP and key', xLabel: 'callers', logarithmic: true, series: [line('decisions', ({ decisionsPerSecond }) => decisionsPerSecond)] }
  ]))
  writeFileSync('docs/benchmarks.md', document(results))
}

function cpus (subjects: Record<string, readonly Round[]>, name: string): number[] {
  return (subjects[name] ?? []).map(({ cpu }) => cpu)
}

function serverCpus (subjects: Record<string, readonly { serverCpu: number }[]>, name: string): number[] {
  return (subjects[name] ?? []).map(({ serverCpu }) => serverCpu)
}

/** What a subject's requests cost more than bare ones. */
function added (subjects: Record<string, readonly Round[]>, name: string): number {
  return quiet(cpus(subjects, name)) - quiet(cpus(subjects, 'bare'))
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

function memoryTable (subjects: Record<string, readonly Round[]>): string {
  const rows = Object.entries(subjects).map(([name, rounds]) => {
    const of = (figure: (round: Round) => number) => median(rounds.map(figure))
    return `| ${name} | ${range(cpus(subjects, name))} | ${name === 'bare' ? '' : fixed(added(subjects, name))} | ${Math.round(of(({ requestsPerSecond }) => requestsPerSecond))} | ${of(({ p50 }) => p50)} / ${of(({ p99 }) => p99)} / ${of(({ p999 }) => p999)} |`
  })
  return `| subject | CPU a request, µs | added to bare, µs | requests a second | p50 / p99 / p99.9, ms |\n|---|---:|---:|---:|---:|\n${rows.join('\n')}`
}

function sharedTable (subjects: Record<string, readonly (Round & { serverCpu: number })[]>): string {
  const rows = Object.entries(subjects).map(([name, rounds]) =>
    `| ${name} | ${name === 'bare' ? '' : fixed(quiet(serverCpus(subjects, name)), 2)} | ${name === 'bare' ? '' : range(serverCpus(subjects, name), 2)} | ${name === 'bare' ? '' : fixed(added(subjects, name))} | ${Math.round(median(rounds.map(({ requestsPerSecond }) => requestsPerSecond)))} | ${median(rounds.map(({ p99 }) => p99))} |`)
  return `| subject | Redis CPU a request, µs | median of the rounds, µs | client CPU added to bare, µs | requests a second | p99, ms |\n|---|---:|---:|---:|---:|---:|\n${rows.join('\n')}`
}

function aims ({ memory, shared, functions, growth }: Results): string {
  const addedBy = (scenario: string, name: string) => added(memory[scenario] ?? {}, name)
  const cheapest = (scenario: string) => Math.min(...peers.map((name) => addedBy(scenario, name)))
  const bare = quiet(cpus(memory['unprotected route'] ?? {}, 'bare'))
  const at = (callers: number) => growth.find((figures) => figures.callers === callers)
  const redis = (name: string) => quiet(serverCpus(shared['admitted, without auto-pipelining'] ?? {}, name))
  const refusedAgain = quiet(serverCpus(shared['refused, without auto-pipelining'] ?? {}, own))
  const rows = [
    ['admitted, memory store: CPU added over a bare route', 'at most 1.15 times the floor\'s, and below each peer\'s or level with it', `${fixed(addedBy('admitted', own) / addedBy('admitted', 'floor'), 2)} times the floor's; ${fixed(addedBy('admitted', own) / cheapest('admitted'), 2)} times the cheapest peer's`],
    ['refused, memory store: CPU added', 'at most 0.65 times the cheapest peer\'s', `${fixed(addedBy('refused', own) / cheapest('refused'), 2)} times`],
    ['unprotected route: CPU added', 'at most 2 % of the bare request', `${fixed(100 * addedBy('unprotected route', own) / bare)} %`],
    ['key and acquire without HTTP', 'at most 1.4 times one SHA-256, one look-up, one clock read', `${fixed(median(functions.decision.map((value, round) => value / (functions.floor[round] ?? NaN))), 2)} times`],
    ['memory a tracked caller, key included', 'at most 300 bytes', `${fixed(at(10_000)?.bytes ?? NaN, 0)} bytes at 10,000, ${fixed(at(1_000_000)?.bytes ?? NaN, 0)} at 1,000,000`],
    ['sweep of 10,000 callers', 'at most 5 ms', `the longest pause is ${fixed(at(10_000)?.sweepStaying ?? NaN)} ms where all stay, ${fixed(at(10_000)?.sweepGoing ?? NaN)} ms where all go`],
    ['sweep of 1,000,000 callers', 'no pause over 20 ms, else measured and said', `the longest pause is ${fixed(at(1_000_000)?.sweepStaying ?? NaN)} ms where all stay, ${fixed(at(1_000_000)?.sweepGoing ?? NaN)} ms where all go, ${fixed(at(1_000_000)?.sweepAtCap ?? NaN)} ms where all stay and a new caller comes first at the cap`],
    ['shared store, admitted: server CPU', 'level with `rate-limiter-flexible`', `${fixed(redis(own) / redis('rate-limiter-flexible'), 2)} times; against a bare script see [scaling.md](scaling.md)`],
    ['shared store, refused again', 'no command to the server', `${fixed(refusedAgain, 2)} µs of the server a request`]
  ]
  return `| what | aim | reached |\n|---|---|---|\n${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}`
}

function document (results: Results): string {
  const { date, machine, versions, rounds, generations, seconds, memory, shared, growth } = results
  return `# Benchmarks

Written by \`npm run bench\` from the figures of its run of ${date}: ${machine}, ${Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(', ')}.

Every subject is a server in a process of its own, keyed by the same SHA-256 of issuer and subject and without quota headers. Subjects take
turns round by round, ${rounds} rounds of ${seconds} s and 20 connections, in ${generations} processes one after the other, each after a round that does not count. The main figure is the CPU time of the server process for each request: its median over the rounds, with the least and the
most, and what a subject adds to the bare route. The machine is shared, and what else runs on it only ever makes a round dearer, by more than the subjects differ; so
the addition is between the three least of each subject's rounds, whose mean is the cost when little gets in the way. In the plots a bar ends there, and its line goes from the least round to the
median. Differences of some tenths of a microsecond still mean nothing.

*bare* is Fastify with the route alone; *floor* a hook that does one \`crypto.hash\`, one \`Map\` look-up and one clock read, and nothing else.

## Aims

${aims(results)}

## Memory store

![CPU that each subject adds to a bare request](benchmarks-memory.svg)

${Object.entries(memory).map(([scenario, subjects]) => `### ${scenario}\n\n${memoryTable(subjects)}`).join('\n\n')}

In "at the cap, with overflow" 20,000 callers come: this quota serves half of them from its shared counter, \`@fastify/rate-limit\` forgets the oldest of them, and
\`rate-limiter-flexible\` keeps a counter and a timer for each.

## Shared store

![CPU of the Redis server a request](benchmarks-shared.svg)

${Object.entries(shared).map(([scenario, subjects]) => `### ${scenario}\n\n${sharedTable(subjects)}`).join('\n\n')}

\`rate-limiter-flexible\` has \`inMemoryBlockOnConsumed\` on, which spares the server as \`rememberRefusals\` does.

## Growth of the memory store

![Memory, sweeps and decisions by number of callers](benchmarks-growth.svg)

| callers | bytes a caller | all stay, ms | all go, ms | at the cap, ms | decisions a second |
|---:|---:|---:|---:|---:|---:|
${growth.map(({ callers, bytes, sweepStaying, sweepGoing, sweepAtCap, decisionsPerSecond }) => `| ${callers.toLocaleString('en')} | ${fixed(bytes, 0)} | ${fixed(sweepStaying, 2)} | ${fixed(sweepGoing, 2)} | ${fixed(sweepAtCap, 2)} | ${Math.round(decisionsPerSecond).toLocaleString('en')} |`).join('\n')}

A sweep's work is spread over the requests that follow it, a thousand counters each; the three columns are the longest that one request takes. Where as many callers are
tracked as may be, and a new one is the first to come after the sweep, all counters must be looked at before it is known whether there is room.

Ten minutes at full load, with ever new callers past the cap: [benchmarks-soak.md](benchmarks-soak.md).

## What was tried where an aim is missed

- Admitted, against the floor: full runs of the same code have come out on either side of the aim, so one run that meets it does not show that it is met.
- The unprotected route: the hook returns after one look-up. \`rate-limiter-flexible\` has no hook on that route at all, so what it adds there in the table is how far the bare
  route's rounds and another server's differ by luck.
- The shared store: six structures were compared on the server ([scaling.md](scaling.md)). Peers keep one key a caller, and pay for neither cap, overflow nor sweep; with
  those, one hash with a sorted set that lags is the cheapest found whose sweep does not block the server.
- The sweep of a million: counters used to go all at once. Now they go a thousand with each request. What is left is the \`Map\`'s own
  shrinking, and the one look through all counters that a new caller at the cap needs before it is known that there is no room for it.

## Where a peer is better

${whereAPeerIsBetter(results)}
`
}

function whereAPeerIsBetter ({ memory, shared }: Results): string {
  const inMemory = Object.entries(memory).flatMap(([scenario, subjects]) => peers
    .filter((peer) => peer in subjects && added(subjects, peer) < added(subjects, own))
    .map((peer) => `- ${scenario}: \`${peer}\` adds ${fixed(added(subjects, peer))} µs, this quota ${fixed(added(subjects, own))} µs.`))
  const onServer = Object.entries(shared).flatMap(([scenario, subjects]) => peers
    .filter((peer) => quiet(serverCpus(subjects, peer)) < quiet(serverCpus(subjects, own)))
    .map((peer) => `- ${scenario}: \`${peer}\` takes ${fixed(quiet(serverCpus(subjects, peer)), 2)} µs of the Redis server, this quota ${fixed(quiet(serverCpus(subjects, own)), 2)} µs. It keeps a key a caller that expires, and so has no cap, no overflow counter and no sweep.`))
  const all = [...inMemory, ...onServer]
  return all.length === 0 ? 'In no scenario of this run.' : all.join('\n')
}
