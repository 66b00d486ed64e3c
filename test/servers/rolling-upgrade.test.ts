// Two builds of the package use one server, as while a service is upgraded (docs/shared-server.md,
// "Rolling upgrades").
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import * as postgres from '../../lib/postgres.js'
import * as redis from '../../lib/redis.js'
import { acquireOne, demand, place } from '../support/demands.js'
import { matchExactly } from '../support/match-exactly.js'
import { startPostgres } from '../support/postgres-server.js'
import { startRedis } from '../support/redis-server.js'

interface Exports {
  readonly redis: typeof redis
  readonly postgres: typeof postgres
}

/**
 * Copies the built package with changes, which are replaced everywhere in the files whose names
 * match, and returns what its entry points export.
 */
function build (changes: readonly [name: RegExp, from: RegExp, to: string][]): Exports {
  const folder = mkdtempSync(join(tmpdir(), 'rolling-upgrade-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true })
  })
  cpSync('dist', join(folder, 'dist'), { recursive: true })
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'))
  const names = readdirSync(join(folder, 'dist'), { recursive: true, encoding: 'utf8' })
  for (const [name, from, to] of changes) {
    let changed = 0
    for (const path of names.filter((each) => name.test(each))) {
      const file = join(folder, 'dist', path)
      const text = readFileSync(file, 'utf8')
      const replaced = text.replaceAll(from, to)
      if (replaced === text) continue
      writeFileSync(file, replaced)
      changed += 1
    }
    if (changed === 0) throw new Error(`there is no ${from} in ${name}`)
  }
  return loaded(folder)
}

function loaded (folder: string): Exports {
  const load = createRequire(join(folder, 'package.json'))
  return { redis: load('./dist/redis.js'), postgres: load('./dist/postgres.js') }
}

const same = loaded(resolve())
const other = build([
  [/redis.keys\.js$/, /'v\d+'/g, "'v999'"],
  [/postgres.schema\.sql\.js$/, /version_\d+/g, 'version_999'],
  [/postgres.schema\.js$/, /(schemaVersion = )\d+/g, '$1999']
])

/** Checks that stores of two processes count together, in windows and of places. */
async function countTogether (
  t: Test,
  [one, next]: readonly [
    redis.RedisQuotaStore | postgres.PostgresQuotaStore,
    redis.RedisQuotaStore | postgres.PostgresQuotaStore
  ]
): Promise<void> {
  const demands = [demand('alice', { limit: 5 }), demand('alice', place(4))]
  const admitted = []
  for (let request = 0; request < 8; request++) {
    const store = request % 2 === 0 ? one : next
    const acquisitions = await store.acquire(demands)
    if (acquisitions.every((each) => each?.admitted)) admitted.push({ store, acquisitions })
  }
  t.equal(admitted.length, 4, 'the places of both')
  for (const { store, acquisitions } of admitted) {
    for (const each of acquisitions) await store.settle(each?.receipt, { count: 1, held: 1 })
  }
  for (const store of [one, next]) {
    matchExactly(t, await Promise.all(demands.map((each) => store.peek(each))), [
      { count: 0 },
      { count: 0 }
    ])
  }
}

t.test('Redis: builds with the same layout count together', async (t) => {
  const { client } = await startRedis(t)
  await countTogether(t, [
    new redis.RedisQuotaStore({ client, rememberRejections: false }),
    new same.redis.RedisQuotaStore({ client, rememberRejections: false })
  ])
})

t.test('Redis: builds with other layouts count apart, and neither reads the other', async (t) => {
  const { client } = await startRedis(t)
  const stores = [
    new redis.RedisQuotaStore({ client, rememberRejections: false }),
    new other.redis.RedisQuotaStore({ client, rememberRejections: false })
  ]
  const demands = [demand('alice', { limit: 5 }), demand('alice', place(4))]
  for (const store of stores) {
    matchExactly(t, await store.acquire(demands), [
      { admitted: true, count: 1 },
      { admitted: true, count: 1 }
    ])
  }
  await stores[0]?.clearCounters()
  matchExactly(t, await Promise.all(demands.map((each) => stores[1]?.peek(each))), [
    { count: 1 },
    { count: 1 }
  ])
  for (const key of await client.keys('*')) {
    t.ok((await client.pttl(key)) <= 180_000, `${key} expires`)
  }
})

t.test(
  "PostgreSQL: builds with the same schema count together, and each one's migration " +
    'changes nothing',
  async (t) => {
    const { pool } = await startPostgres(t)
    await pool.query(same.postgres.postgresSchema())
    await countTogether(t, [
      new postgres.PostgresQuotaStore({ pool, rememberRejections: false }),
      new same.postgres.PostgresQuotaStore({ pool, rememberRejections: false })
    ])
  }
)

t.test(
  'PostgreSQL: the migration of another schema fails by name and changes nothing; it works ' +
    'with another table',
  async (t) => {
    const { pool } = await startPostgres(t)
    const old = new postgres.PostgresQuotaStore({ pool })
    t.match(await acquireOne(old, 'alice', { limit: 5 }), { count: 1 })
    await t.rejects(
      pool.query(other.postgres.postgresSchema()),
      /the table llm_quota is not of version \d+ of the schema/
    )
    const refused = new other.postgres.PostgresQuotaStore({ pool })
    await t.rejects(
      async () => acquireOne(refused, 'alice'),
      /the table llm_quota is not of version 999 of the schema: choose another table/
    )
    await pool.query(other.postgres.postgresSchema({ table: 'next_quota' }))
    const next = new other.postgres.PostgresQuotaStore({ pool, table: 'next_quota' })
    t.match(await acquireOne(next, 'alice', { limit: 5 }), { admitted: true, count: 1 })
    t.match(await acquireOne(old, 'alice', { limit: 5 }), { admitted: true, count: 2 })
  }
)
