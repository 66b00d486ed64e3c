// Measures how the cost of the memory store grows with the number of callers, and prints JSON. Run it with --expose-gc and
// --single-threaded-gc, because pauses are measured as CPU time of the process.
import { randomBytes } from 'node:crypto'
import { MemoryQuotaStore } from 'fastify-llm-quota'
import { median } from './statistics.js'

const sizes = [100, 1_000, 10_000, 100_000, ...(process.argv.includes('--quick') ? [] : [1_000_000])]
const collect = globalThis.gc
if (collect === undefined) throw new Error('run with --expose-gc')

console.log(JSON.stringify(sizes.map((callers) => ({ callers, ...figuresOf(callers) }))))

function figuresOf (callers: number) {
  const rounds = callers >= 100_000 ? 3 : 9
  const sweepsStaying: number[] = []
  const sweepsAtCap: number[] = []
  const sweepsGoing: number[] = []
  const memory: number[] = []
  const rates: number[] = []
  for (let round = 0; round < rounds; round++) {
    // A real clock returns fractions. With integers, V8 would store the numbers differently.
    let now = 0.5
    const callerKeys = Array.from({ length: callers }, () => randomBytes(32).toString('hex'))
    const [resident = ''] = callerKeys
    collect?.()
    const before = process.memoryUsage().heapUsed
    const store = new MemoryQuotaStore({ clock: () => now, maxTrackedCallers: callers })
    for (const key of callerKeys) store.acquire(key, 10)
    collect?.()
    memory.push((process.memoryUsage().heapUsed - before) / callers)

    now = 60_000.5
    sweepsStaying.push(longestPause(store, callers, resident))
    now = 250_000.5
    sweepsGoing.push(longestPause(store, callers, resident))

    now = 0.5
    const full = new MemoryQuotaStore({ clock: () => now, maxTrackedCallers: callers })
    for (const key of callerKeys) full.acquire(key, 10)
    now = 60_000.5
    sweepsAtCap.push(longestPause(full, callers, 'one more'))

    const keys = callerKeys.slice(0, 100_000)
    for (const key of keys) store.acquire(key, 1_000_000)
    const decisions = 300_000
    const took = cpuTime(() => { for (let decision = 0; decision < decisions; decision++) store.acquire(keys[(decision * 7919) % keys.length] ?? '', 1_000_000) })
    rates.push(decisions / took * 1000)
  }
  return { bytesBesideKey: median(memory), sweepStaying: median(sweepsStaying), sweepAtCap: median(sweepsAtCap), sweepGoing: median(sweepsGoing), decisionsPerSecond: median(rates) }
}

// Returns the longest CPU time of a request, in ms, among the requests over which the work of a sweep is spread.
function longestPause (store: MemoryQuotaStore, callers: number, caller: string): number {
  return Math.max(...Array.from({ length: callers / 500 + 10 }, () => cpuTime(() => store.acquire(caller, 10))))
}

function cpuTime (run: () => unknown): number {
  const started = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(started)
  return (user + system) / 1000
}
