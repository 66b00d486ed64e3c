// The instructions of the service's process per request, with counters in memory.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { instructionsOf, startCounting, valgrind } from './callgrind.js'
import { path } from './limiters.js'
import { median, type Row } from './table.js'

const processes = 3
// After these, V8 has compiled what the counted requests run.
const warmUp = 30_000
const slices = 10
const requestsOfASlice = 500
const unlimited = 1_000_000_000

const names = [
  'Fastify alone',
  'Fastify alone, again',
  'fastify-llm-quota',
  'fastify-llm-quota, three quotas',
  '@fastify/rate-limit',
  'rate-limiter-flexible'
]

/**
 * Measures each server several times, two at a time. V8 can compile the same program differently in
 * each process, so the least counts.
 */
export async function measureMemory (): Promise<Row[]> {
  const situations = [
    { title: 'In memory, admitted', limit: unlimited, status: 200 },
    { title: 'In memory, rejected', limit: 1, status: 429 }
  ]
  const rows = situations.map(({ title }): Row => ({
    title,
    unit: 'thousand instructions of the service',
    costs: {}
  }))
  const left = Array.from({ length: processes }, () => {
    return names.flatMap((name) =>
      situations.map((situation, row) => ({ name, row, ...situation }))
    )
  }).flat()
  await Promise.all(
    Array.from({ length: 2 }, async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const { name, row, limit, status } = next
        const isAlone = name.startsWith('Fastify')
        if (row === 1 && (isAlone || name.endsWith('three quotas'))) continue
        const cost = (await instructionsPerRequest(name, limit, status)) / 1000
        const costs = rows[row]?.costs ?? {}
        costs[name] = Math.min(cost, costs[name] ?? Infinity)
        console.error(`${name}, ${status}: ${cost.toFixed(1)}`)
      }
    })
  )
  return rows
}

async function instructionsPerRequest (
  name: string,
  limit: number,
  status: number
): Promise<number> {
  const [program, ...options] = valgrind
  // With a single thread, the compiler and the garbage collector run in the same order each time.
  // V8's memory reducer collects garbage when a process has little to do, as on a busy machine.
  const node = [process.execPath, '--single-threaded', '--no-memory-reducer']
  const server = [
    ...node,
    fileURLToPath(new URL('server.js', import.meta.url)),
    name,
    String(limit)
  ]
  const child = spawn(program, [...options, ...server], {
    stdio: ['ignore', 'inherit', 'ignore', 'ipc']
  })
  try {
    return await count(child, status)
  } finally {
    child.kill('SIGKILL')
  }
}

async function count (child: ChildProcess, status: number): Promise<number> {
  const [address] = await once(child, 'message')
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const request = async (caller: string): Promise<number | undefined> => {
    const sent = get(`${address}${path}`, { agent, headers: { 'x-subject': caller } })
    const [response] = await once(sent, 'response')
    await text(response)
    return response.statusCode
  }
  for (let sent = 0; sent < warmUp; sent++) {
    // At the end of a window, the first 200 after many 429s makes V8 discard compiled code. So some
    // are admitted from the beginning.
    await request(sent % 200 === 0 ? `other caller ${sent}` : 'caller')
  }
  startCounting(child.pid)
  const figures: number[] = []
  let others = 0
  for (let counted = 0; counted < slices; counted++) {
    const before = instructionsOf(child.pid)
    for (let sent = 0; sent < requestsOfASlice; sent++) {
      if ((await request('caller')) !== status) others += 1
    }
    figures.push((instructionsOf(child.pid) - before) / requestsOfASlice)
  }
  agent.destroy()
  // A window that ends in the meantime admits a request.
  if (others > slices) throw new Error(`${others} responses do not have status ${status}`)
  // The median leaves out full garbage collections, each of which takes as long as thousands of
  // requests and comes at a random time.
  return median(figures)
}
