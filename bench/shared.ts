// What a request costs the server on which several instances count, and the service: CPU time, and
// instructions of Redis. Callgrind cannot count the processes of PostgreSQL together.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { postgresSchema } from 'fastify-llm-quota/postgres'
import { PostgresServer } from '../test/support/postgres-server.js'
import { RedisServer } from '../test/support/redis-server.js'
import { instructionsOf, startCounting, valgrind } from './callgrind.js'
import { limiters, path, peerTable, prepare, type Place } from './limiters.js'
import { cpuOf } from './server-cpu.js'
import { median, type Row } from './table.js'

const callers = 5_000
const unlimited = 1_000_000_000

const own = ['fastify-llm-quota', 'fastify-llm-quota, again', 'fastify-llm-quota, three quotas']

/** What is measured in a server or a process, in one unit that all of its figures have. */
interface Measure {
  readonly unit: string
  readonly concurrencies: readonly number[]
  /** Returns what was used since the process has started. */
  used(): number
}

/** Measures CPU time. */
export function measureRedis (): Promise<Row[]> {
  return onRedis('redis-server', { rounds: 15, requests: 2_000 }, (server) => [
    { unit: 'µs CPU of Redis', concurrencies: [1, 64], used: () => cpuOf(server.pid) },
    { unit: 'µs CPU of the service', concurrencies: [64], used: ownCpu }
  ])
}

/** Measures instructions, on a server under valgrind. */
export function measureInstructions (): Promise<Row[]> {
  return onRedis(programUnderValgrind(), { rounds: 5, requests: 1_000 }, (server) => {
    startCounting(server.pid)
    const used = (): number => instructionsOf(server.pid) / 1_000
    return [{ unit: 'thousand instructions of Redis', concurrencies: [1, 64], used }]
  })
}

/** Returns a program that runs Redis under valgrind. */
function programUnderValgrind (): string {
  mkdirSync('build/bench', { recursive: true })
  const program = resolve('build/bench/counted-redis-server')
  writeFileSync(
    program,
    `#!/bin/sh\nexec ${valgrind.join(' ')} --log-file=/dev/null redis-server "$@"\n`
  )
  chmodSync(program, 0o755)
  return program
}

async function onRedis (
  program: string,
  rounds: Rounds,
  measuresOf: (server: RedisServer) => readonly Measure[]
): Promise<Row[]> {
  process.env['REDIS_SERVER'] = program
  // Under valgrind, a script takes fifty times as long, so that the server would log each as slow.
  const server = await RedisServer.start(
    '--slowlog-log-slower-than',
    '-1',
    '--hz',
    '1',
    '--dynamic-hz',
    'no'
  )
  const redis = server.client()
  const names = ['Fastify alone', ...own, '@fastify/rate-limit', 'rate-limiter-flexible']
  const rows = await measure('Redis', names, { redis }, rounds, measuresOf(server))
  redis.disconnect()
  await server.stop()
  return rows
}

export async function measurePostgres (): Promise<Row[]> {
  const server = await PostgresServer.start()
  const pool = server.pool({ max: 10 })
  await pool.query(`${postgresSchema()}; ${peerTable}`)
  const names = ['Fastify alone', ...own, 'rate-limiter-flexible']
  const rounds = { rounds: 15, requests: 2_000 }
  const rows = await measure('PostgreSQL', names, { pool }, rounds, [
    { unit: 'µs CPU of PostgreSQL', concurrencies: [1, 64], used: () => cpuOf(server.pid) },
    { unit: 'µs CPU of the service', concurrencies: [64], used: ownCpu }
  ])
  await pool.end()
  await server.stop()
  return rows
}

/** Returns the CPU time of this process, which is the service, in microseconds. */
function ownCpu (): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** How often the limiters take turns, and how many requests a turn has. */
interface Rounds {
  readonly rounds: number
  readonly requests: number
}

/** Measures all limiters in turns, so that what else runs on the machine affects all of them. */
async function measure (
  where: string,
  names: readonly string[],
  place: Place,
  { rounds, requests }: Rounds,
  measures: readonly Measure[]
): Promise<Row[]> {
  const apps = await Promise.all(
    names.map(async (name) => ({ name, app: await start(name, place) }))
  )
  for (const { app } of apps) await send(app, 2 * callers, 64)
  const rows: Row[] = []
  for (const atOnce of [1, 64]) {
    const measured = measures.filter(({ concurrencies }) => concurrencies.includes(atOnce))
    const figures = measured.map(() => new Map<string, number[]>())
    for (let round = 0; round < rounds; round++) {
      for (const { name, app } of apps) {
        const before = measured.map(({ used }) => used())
        await send(app, requests, atOnce)
        for (const [index, { used }] of measured.entries()) {
          const cost = (used() - (before[index] ?? NaN)) / requests
          const costs = figures[index]?.get(name) ?? []
          figures[index]?.set(name, [...costs, cost])
        }
      }
    }
    for (const [index, { unit }] of measured.entries()) {
      const medians = [...(figures[index] ?? [])].map(([name, costs]) => [name, median(costs)])
      const row = {
        title: `${where}, ${atOnce === 1 ? 'one at a time' : `${atOnce} at once`}`,
        unit,
        costs: Object.fromEntries(medians)
      }
      rows.push(row)
      console.error(row)
    }
  }
  for (const { app } of apps) await app.close()
  return rows
}

async function start (name: string, place: Place): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify()
  await prepare(app)
  await limiters[name]?.(app, unlimited, place)
  await app.ready()
  return app
}

/** Sends requests of all callers in turn, so many at once. */
async function send (app: FastifyInstance, requests: number, atOnce: number): Promise<void> {
  let sent = 0
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (sent < requests) {
        sent += 1
        const { statusCode, body } = await app.inject({
          url: path,
          headers: { 'x-subject': `caller ${(sent * 7_919) % callers}` }
        })
        if (statusCode !== 200) throw new Error(`${statusCode}: ${body}`)
      }
    })
  )
}
