// Prints the number of instructions of the Node process per decision, for this store, for a minimal script, and for peers, with one caller at
// a time and with 64 at once.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { RedisServer } from '../../test/support/redis-server.js'
import { assertValgrind, control, nodeOptions, total, valgrindOptions } from '../instructions/counted-server.js'
import { median } from '../statistics.js'

const warmUp = 19_200
const counts = 5
const perCount = 1_920
const own = 'this store'
const limiters = ['bare INCR and PTTL in a script', 'rate-limiter-flexible', '@fastify/rate-limit', own]

assertValgrind()
const server = await RedisServer.start()
const figures = new Map<string, [one: number, many: number]>()
for (const name of limiters) figures.set(name, [await instructionsOf(name, 1), await instructionsOf(name, 64)])
await server.stop()

const [ownOne = NaN, ownMany = NaN] = figures.get(own) ?? []
console.log('\n| | instructions of the Node process per decision, one caller at a time | this store, relative | 64 callers at once | this store, relative |\n|---|---:|---:|---:|---:|')
for (const [name, [one, many]] of figures) {
  console.log(`| ${name} | ${(one / 1000).toFixed(1)}k | ${(ownOne / one).toFixed(2)} | ${(many / 1000).toFixed(1)}k | ${(ownMany / many).toFixed(2)} |`)
}

/** Returns the median of five counts, which leaves out full garbage collections and late compilations. */
async function instructionsOf (name: string, atOnce: number): Promise<number> {
  const decider = fileURLToPath(new URL('decider.js', import.meta.url))
  const child = spawn('valgrind', [...valgrindOptions, process.execPath, ...nodeOptions, decider, name, String(server.port), String(atOnce)], { stdio: ['ignore', 'inherit', 'ignore', 'ipc'] })
  const decide = async (decisions: number) => {
    child.send(decisions)
    await once(child, 'message')
  }
  try {
    await once(child, 'message')
    await decide(warmUp)
    control(child, '-i', 'on')
    const totals = [total(child)]
    for (let counted = 0; counted < counts; counted++) {
      await decide(perCount)
      totals.push(total(child))
    }
    return median(totals.slice(1).map((later, index) => (later - (totals[index] ?? NaN)) / perCount))
  } finally {
    child.kill('SIGKILL')
  }
}
