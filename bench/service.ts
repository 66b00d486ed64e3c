// Requests a second and latency of a service, with each limiter, in memory, on Redis and on
// PostgreSQL: means of several processes.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { postgresSchema } from 'fastify-llm-quota/postgres'
import { PostgresServer } from '../test/support/postgres-server.js'
import { RedisServer } from '../test/support/redis-server.js'
import { path, peerTable } from './limiters.js'
import { cpuOf } from './server-cpu.js'
import { median, type Row } from './table.js'

const connections = 32
const callers = 1_000
// V8 compiles the same program differently in each process, and stays with it after a major garbage
// collection. So there are several processes of each limiter, each measured after a collection.
const processes = 5
const rounds = 5
// Before them, V8 compiles the service, and the client that all services share.
const roundsToWarmUp = 4
const requestsOfARound = 4_000
const unlimited = 1_000_000_000

const own = ['Fastify alone', 'fastify-llm-quota', 'fastify-llm-quota, again']
const three = ['fastify-llm-quota, three quotas', 'rate-limiter-flexible, three limits']

/** What a service did in a round. */
interface Round {
  /** Requests a second. */
  readonly rate: number
  /** Milliseconds. */
  readonly median: number
  readonly ninetyNinth: number
  /** Microseconds of the service's process for each request. */
  readonly cpu: number
}

export async function measureService (): Promise<Row[]> {
  const redis = await RedisServer.start()
  const postgres = await PostgresServer.start()
  const pool = postgres.pool()
  await pool.query(`${postgresSchema()}; ${peerTable}`)
  await pool.end()
  const peer = 'rate-limiter-flexible'
  const rows = [
    ...(await measure('in memory', [...own, '@fastify/rate-limit', peer, ...three], '')),
    ...(await measure('on Redis', [...own, '@fastify/rate-limit', peer, ...three], redis.url)),
    ...(await measure('on PostgreSQL', [...own, peer, ...three], postgres.url))
  ]
  await redis.stop()
  await postgres.stop()
  return rows
}

/** Measures all limiters in turns, so that what else runs on the machine affects all of them. */
async function measure (where: string, names: readonly string[], url: string): Promise<Row[]> {
  // Of each process, the median round.
  const measured = new Map<string, Round[]>(names.map((name) => [name, []]))
  for (let each = 0; each < processes; each++) {
    for (const [name, round] of await measureProcesses(names, url)) {
      measured.get(name)?.push(round)
    }
  }
  const rowOf = (
    unit: string,
    figure: (round: Round) => number,
    summary: (figures: readonly number[]) => number
  ): Row => {
    const costs = [...measured].map(([name, each]) => [name, summary(each.map(figure))])
    return { title: where, unit, costs: Object.fromEntries(costs) }
  }
  const rows = [
    rowOf('requests a second, mean of the processes', ({ rate }) => rate, mean),
    rowOf('the same, standard deviation', ({ rate }) => rate, deviation),
    rowOf('ms, median', (round) => round.median, mean),
    rowOf('ms, 99 of 100', ({ ninetyNinth }) => ninetyNinth, mean),
    rowOf('µs CPU of the service', ({ cpu }) => cpu, mean)
  ]
  console.error(rows)
  return rows
}

/** Measures one process of each limiter. */
async function measureProcesses (
  names: readonly string[],
  url: string
): Promise<Map<string, Round>> {
  const services = await Promise.all(names.map((name) => Service.start(name, url)))
  for (let round = 0; round < roundsToWarmUp; round++) {
    for (const service of services) await service.run()
  }
  for (const service of services) await service.collectGarbage()
  const done = new Map<string, Round[]>(names.map((name) => [name, []]))
  // The first round after a collection is slower.
  for (const service of services) await service.run()
  for (let round = 0; round < rounds; round++) {
    for (const service of services) done.get(service.name)?.push(await service.run())
  }
  for (const service of services) service.stop()
  return new Map([...done].map(([name, each]) => [name, medianRound(each)]))
}

function medianRound (done: readonly Round[]): Round {
  const medianOf = (figure: (round: Round) => number): number => median(done.map(figure))
  return {
    rate: medianOf(({ rate }) => rate),
    median: medianOf((round) => round.median),
    ninetyNinth: medianOf(({ ninetyNinth }) => ninetyNinth),
    cpu: medianOf(({ cpu }) => cpu)
  }
}

function mean (figures: readonly number[]): number {
  return figures.reduce((sum, figure) => sum + figure, 0) / figures.length
}

function deviation (figures: readonly number[]): number {
  const middle = mean(figures)
  const squares = figures.map((figure) => (figure - middle) ** 2)
  return Math.sqrt(squares.reduce((sum, square) => sum + square, 0) / (figures.length - 1))
}

/** A service in a process of its own, and connections to it. */
class Service {
  readonly name: string
  readonly #process: ChildProcess
  readonly #sockets: readonly Socket[]

  private constructor (name: string, child: ChildProcess, sockets: readonly Socket[]) {
    this.name = name
    this.#process = child
    this.#sockets = sockets
  }

  static async start (name: string, url: string): Promise<Service> {
    const program = fileURLToPath(new URL('server.js', import.meta.url))
    const child = spawn(process.execPath, ['--expose-gc', program, name, String(unlimited), url], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc']
    })
    const [address] = await once(child, 'message')
    const { hostname, port } = new URL(String(address))
    const sockets = Array.from({ length: connections }, () => connect(Number(port), hostname))
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    return new Service(name, child, sockets)
  }

  async collectGarbage (): Promise<void> {
    const collected = once(this.#process, 'message')
    this.#process.send('collect')
    await collected
  }

  stop (): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#process.kill('SIGKILL')
  }

  async run (): Promise<Round> {
    const latencies: number[] = []
    const cpu = cpuOf(this.#process.pid)
    const since = performance.now()
    let sent = 0
    const sendAll = async (socket: Socket): Promise<void> => {
      while (sent < requestsOfARound) {
        sent += 1
        latencies.push(await send(socket, `caller ${(sent * 7_919) % callers}`))
      }
    }
    await Promise.all(this.#sockets.map(sendAll))
    const seconds = (performance.now() - since) / 1_000
    latencies.sort((one, other) => one - other)
    return {
      rate: requestsOfARound / seconds,
      median: median(latencies),
      ninetyNinth: latencies[Math.floor(latencies.length * 0.99)] ?? NaN,
      cpu: (cpuOf(this.#process.pid) - cpu) / requestsOfARound
    }
  }
}

/**
 * Sends a request and returns the milliseconds until its response. A client of `node:http` would
 * need more CPU time than the service.
 */
function send (socket: Socket, caller: string): Promise<number> {
  const sentAt = performance.now()
  socket.write(`GET ${path} HTTP/1.1\r\nhost: service\r\nx-subject: ${caller}\r\n\r\n`)
  return new Promise((resolve, reject) => {
    let text = ''
    const read = (chunk: Buffer): void => {
      text += chunk.toString('latin1')
      // The body is a JSON object without another one in it.
      if (!text.endsWith('}')) return
      socket.off('data', read)
      if (text.startsWith('HTTP/1.1 200 ')) resolve(performance.now() - sentAt)
      else reject(new Error(text))
    }
    socket.on('data', read)
  })
}
