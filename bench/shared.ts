// What a request costs the server on which several instances count: the instructions of Redis, and
// the CPU time of PostgreSQL, whose processes callgrind cannot count together.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { postgresSchema } from 'fastify-llm-quota/postgres'
import { PostgresServer } from '../test/support/postgres-server.js'
import { RedisServer } from '../test/support/redis-server.js'
import { instructionsOf, startCounting, valgrind } from './callgrind.js'
import { limiters, path, peerTable, prepare, type Place } from './limiters.js'
import { serverCpu } from './server-cpu.js'
import { median, type Row } from './table.js'

const callers = 5_000
const rounds = 5
const unlimited = 1_000_000_000
const concurrencies = [1, 64] as const

const own = ['fastify-llm-quota', 'fastify-llm-quota, again', 'fastify-llm-quota, three quotas']

export async function measureRedis (): Promise<Row[]> {
  mkdirSync('build/bench', { recursive: true })
  const program = resolve('build/bench/counted-redis-server')
  writeFileSync(
    program,
    `#!/bin/sh\nexec ${valgrind.join(' ')} --log-file=/dev/null redis-server "$@"\n`
  )
  chmodSync(program, 0o755)
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
  startCounting(server.pid)
  const names = [...own, '@fastify/rate-limit', 'rate-limiter-flexible']
  const cost = () => instructionsOf(server.pid) / 1000
  const rows = await measure(
    'Redis',
    'thousand instructions of Redis',
    names,
    { redis },
    1_000,
    cost
  )
  redis.disconnect()
  await server.stop()
  return rows
}

export async function measurePostgres (): Promise<Row[]> {
  const server = await PostgresServer.start()
  const pool = server.pool({ max: 10 })
  await pool.query(`${postgresSchema()}; ${peerTable}`)
  const names = [...own, 'rate-limiter-flexible']
  const rows = await measure('PostgreSQL', 'µs CPU of PostgreSQL', names, { pool }, 12_000, () =>
    serverCpu(server.pid)
  )
  await pool.end()
  await server.stop()
  return rows
}

/** Measures all limiters in turns, so that what else runs on the machine affects all of them. */
async function measure (
  where: string,
  unit: string,
  names: readonly string[],
  place: Place,
  requests: number,
  cost: () => number
): Promise<Row[]> {
  const apps = await Promise.all(
    names.map(async (name) => ({ name, app: await start(name, place) }))
  )
  for (const { app } of apps) await send(app, 2 * callers, 64)
  const rows: Row[] = []
  for (const atOnce of concurrencies) {
    const figures: Record<string, number[]> = {}
    for (let round = 0; round < rounds; round++) {
      for (const { name, app } of apps) {
        const before = cost()
        await send(app, requests, atOnce)
        ;(figures[name] ??= []).push((cost() - before) / requests)
      }
    }
    const costs = Object.fromEntries(
      Object.entries(figures).map(([name, each]) => [name, median(each)])
    )
    rows.push({
      title: `${where}, ${atOnce === 1 ? 'one at a time' : `${atOnce} at once`}`,
      unit,
      costs
    })
    console.error(rows.at(-1))
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
