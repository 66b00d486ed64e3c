// The instructions of the service's process per request, with counters in memory.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { instructionsOf, startCounting, valgrind } from './callgrind.js'
import { path, unprotectedPath } from './limiters.js'
import { median, type Row } from './table.js'

const processes = 2
// After these, V8 has compiled what the counted requests run.
const warmUp = 30_000
const slices = 10
const requestsOfASlice = 500
const unlimited = 1_000_000_000

const alone = 'Fastify alone'
const own = 'fastify-llm-quota'
const peers = ['@fastify/rate-limit', 'rate-limiter-flexible']
const three = ['fastify-llm-quota, three quotas', 'rate-limiter-flexible, three limits']

/** What is requested of a service with each of the limiters. */
interface Situation {
  readonly title: string
  readonly limit: number
  readonly path: string
  readonly status: number
  readonly names: readonly string[]
}

const situations: readonly Situation[] = [
  {
    title: 'In memory, admitted',
    limit: unlimited,
    path,
    status: 200,
    names: [alone, 'Fastify alone, again', own, ...peers, ...three]
  },
  { title: 'In memory, rejected', limit: 1, path, status: 429, names: [own, ...peers] },
  {
    title: 'In memory, not protected',
    limit: unlimited,
    path: unprotectedPath,
    status: 200,
    names: [alone, own]
  }
]

/**
 * Measures each server several times, two at a time. V8 can compile the same program differently in
 * each process, so the least counts.
 */
export async function measureMemory (): Promise<Row[]> {
  const measured = situations.map((situation) => ({
    situation,
    costs: new Map<string, number>()
  }))
  const left = Array.from({ length: processes }, () =>
    measured.flatMap(({ situation, costs }) =>
      situation.names.map((name) => ({ situation, costs, name }))
    )
  ).flat()
  const measureNext = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const { situation, costs, name } = next
      const cost = (await instructionsPerRequest(name, situation)) / 1000
      costs.set(name, Math.min(cost, costs.get(name) ?? Infinity))
      console.error(`${situation.title}, ${name}: ${cost.toFixed(1)}`)
    }
  }
  await Promise.all([measureNext(), measureNext()])
  const rows = measured.map(({ situation, costs }): Row => {
    return {
      title: situation.title,
      unit: 'thousand instructions of the service',
      costs: Object.fromEntries(costs)
    }
  })
  return [...rows, ...addedIn(rows)]
}

/**
 * What each limiter adds to Fastify, as a part of what the cheapest peer adds. A request that is
 * not protected is compared with one that the peer admits.
 */
function addedIn (rows: readonly Row[]): Row[] {
  const [admitted] = rows
  return rows.map((row) => {
    const baseOf = ({ costs }: Row): number => costs[alone] ?? admitted?.costs[alone] ?? NaN
    const compared = peers.some((peer) => peer in row.costs) ? row : (admitted ?? row)
    const cheapest =
      Math.min(...peers.map((peer) => compared.costs[peer] ?? Infinity)) - baseOf(compared)
    const names = Object.keys(row.costs).filter((name) => name !== alone)
    const added = names.map((name) => [
      name,
      ((row.costs[name] ?? NaN) - baseOf(row)) / cheapest
    ])
    return {
      title: row.title,
      unit: 'added to Fastify, of the cheapest peer',
      costs: Object.fromEntries(added)
    }
  })
}

async function instructionsPerRequest (name: string, situation: Situation): Promise<number> {
  const [program, ...options] = valgrind
  // With a single thread, the compiler and the garbage collector run in the same order each time.
  // V8's memory reducer collects garbage when a process has little to do, as on a busy machine.
  const node = [process.execPath, '--single-threaded', '--no-memory-reducer']
  const server = [
    ...node,
    fileURLToPath(new URL('server.js', import.meta.url)),
    name,
    String(situation.limit)
  ]
  const child = spawn(program, [...options, ...server], {
    stdio: ['ignore', 'inherit', 'ignore', 'ipc']
  })
  try {
    return await count(child, situation)
  } finally {
    child.kill('SIGKILL')
  }
}

async function count (child: ChildProcess, { path, status }: Situation): Promise<number> {
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
