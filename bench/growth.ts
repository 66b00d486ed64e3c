// How the embedded store's cost grows with its callers, as JSON. Run with --expose-gc.
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
    let now = 0
    collect?.()
    const before = process.memoryUsage().heapUsed
    const store = new MemoryQuotaStore({ clock: () => now, maxTrackedCallers: callers })
    const resident = randomBytes(32).toString('hex')
    store.acquire(resident, 10)
    for (let caller = 1; caller < callers; caller++) store.acquire(randomBytes(32).toString('hex'), 10)
    collect?.()
    memory.push((process.memoryUsage().heapUsed - before) / callers)

    now = 60_000
    sweepsStaying.push(longestPause(store, callers, resident))
    now = 250_000
    sweepsGoing.push(longestPause(store, callers, resident))

    now = 0
    const full = new MemoryQuotaStore({ clock: () => now, maxTrackedCallers: callers })
    for (let caller = 0; caller < callers; caller++) full.acquire(randomBytes(32).toString('hex'), 10)
    now = 60_000
    sweepsAtCap.push(longestPause(full, callers, 'one more'))

    const keys = Array.from({ length: Math.min(callers, 100_000) }, () => randomBytes(32).toString('hex'))
    for (const key of keys) store.acquire(key, 1_000_000)
    const decisions = 300_000
    const took = timed(() => { for (let decision = 0; decision < decisions; decision++) store.acquire(keys[(decision * 7919) % keys.length] ?? '', 1_000_000) })
    rates.push(decisions / took * 1000)
  }
  return { bytes: median(memory), sweepStaying: median(sweepsStaying), sweepAtCap: median(sweepsAtCap), sweepGoing: median(sweepsGoing), decisionsPerSecond: median(rates) }
}

// The longest that one request takes, of those that a sweep's work is spread over.
function longestPause (store: MemoryQuotaStore, callers: number, caller: string): number {
  return Math.max(...Array.from({ length: callers / 1_000 + 10 }, () => timed(() => store.acquire(caller, 10))))
}

function timed (run: () => unknown): number {
  const started = performance.now()
  run()
  return performance.now() - started
}
