// What a request costs the server on which several instances count: CPU time, and instructions of
// Redis. Callgrind cannot count the processes of PostgreSQL together.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { postgresSchema } from 'fastify-llm-quota/postgres'
import { PostgresServer } from '../test/support/postgres-server.js'
import { RedisServer } from '../test/support/redis-server.js'
import { instructionsOf, startCounting, valgrind } from './callgrind.js'
import { journalTable, limiters, path, peerTable, prepare, type Place } from './limiters.js'
import { cpuOf } from './server-cpu.js'
import { median, ratiosOf, type Row } from './table.js'

const callers = 5_000
const unlimited = 1_000_000_000

const peer = 'rate-limiter-flexible'
const peerOfThree = 'rate-limiter-flexible, three limits'
// The second one is a control.
const comparedWith: Readonly<Record<string, string>> = {
  'fastify-llm-quota': peer,
  'fastify-llm-quota, again': peer,
  'fastify-llm-quota, three quotas': peerOfThree,
  'fastify-llm-quota, three quotas, again': peerOfThree
}
const names = [...Object.keys(comparedWith), peer, peerOfThree]
const withJournal = 'fastify-llm-quota, three quotas with a journal'

/** What is measured of a server. */
interface Measure {
  readonly unit: string
  /** Returns what was used since the process has started. */
  used(): number
}

/** Measures CPU time. */
export function measureRedis (): Promise<Row[]> {
  return onRedis({ rounds: 15, requests: 2_000 }, (server) => {
    return { unit: 'µs CPU of Redis', used: () => cpuOf(server.pid) }
  })
}

/** Measures instructions, on a server under valgrind. */
export async function measureInstructions (): Promise<Row[]> {
  process.env['REDIS_SERVER'] = programUnderValgrind()
  try {
    return await onRedis({ rounds: 5, requests: 1_000 }, (server) => {
      startCounting(server.pid)
      const used = (): number => instructionsOf(server.pid) / 1_000
      return { unit: 'thousand instructions of Redis', used }
    })
  } finally {
    delete process.env['REDIS_SERVER']
  }
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
  rounds: Rounds,
  measureOf: (server: RedisServer) => Measure
): Promise<Row[]> {
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
  const all = [...names, '@fastify/rate-limit']
  const rows = await measure('Redis', all, { redis }, rounds, measureOf(server))
  redis.disconnect()
  await server.stop()
  return rows
}

export async function measurePostgres (): Promise<Row[]> {
  const server = await PostgresServer.start()
  // The CPU time of a connection that has ended would be missing.
  const pool = server.pool({ max: 10, idleTimeoutMillis: 0 })
  const journalSchema = postgresSchema({ table: journalTable, unlogged: false, journal: true })
  await pool.query(`${postgresSchema()}; ${journalSchema}; ${peerTable}`)
  const rounds = { rounds: 15, requests: 2_000 }
  const all = [...names, withJournal]
  const rows = await measure('PostgreSQL', all, { pool }, rounds, {
    unit: 'µs CPU of PostgreSQL',
    used: () => cpuOf(server.pid)
  })
  await pool.end()
  await server.stop()
  return rows
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
  { unit, used }: Measure
): Promise<Row[]> {
  const apps = await Promise.all(
    names.map(async (name) => ({ name, app: await start(name, place) }))
  )
  for (const { app } of apps) await send(app, 2 * callers, 64)
  const rows: Row[] = []
  for (const atOnce of [1, 64]) {
    const figures = new Map<string, number[]>()
    for (let round = 0; round < rounds; round++) {
      for (const { name, app } of apps) {
        const before = used()
        await send(app, requests, atOnce)
        figures.set(name, [...(figures.get(name) ?? []), (used() - before) / requests])
      }
    }
    const row = {
      title: `${where}, ${atOnce === 1 ? 'one at a time' : `${atOnce} at once`}`,
      unit,
      costs: Object.fromEntries([...figures].map(([name, costs]) => [name, median(costs)]))
    }
    const hasJournal = names.includes(withJournal)
    const peers = { ...comparedWith, ...(hasJournal && { [withJournal]: peerOfThree }) }
    rows.push(row, ratiosOf(row, peers))
    console.error(row)
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
