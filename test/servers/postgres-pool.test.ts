// The connections of a host's pool: one is lent before each statement, so that a call without a
// connection was certainly not sent.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import { FaultyProxy } from '../../chaos/faulty-proxy.js'
import { PostgresQuotaStore, type PostgresPool } from '../../lib/postgres.js'
import { acquireOne, demand, estimate } from '../support/demands.js'
import { listenOnLoopback } from '../support/loopback.js'
import { startPostgres } from '../support/postgres-server.js'
import { until } from '../support/until.js'

const { server, pool } = await startPostgres(t)

t.test('settlements wait while the pool is busy with queries of the host', async (t) => {
  const busy = server.pool({ max: 4, connectionTimeoutMillis: 1_000 })
  t.teardown(() => busy.end())
  const store = new PostgresQuotaStore({ pool: busy })
  const tokens = estimate(100, { limit: 10_000 })
  const acquired = await Promise.all(
    Array.from({ length: 20 }, () => acquireOne(store, 'alice', tokens))
  )
  const queries = Promise.all(
    Array.from({ length: 4 }, () => busy.query('SELECT pg_sleep(2.5)'))
  )
  const settled = Promise.all(
    acquired.map(({ receipt }) => store.settle(receipt, { count: 99, held: 100 }))
  )
  await t.rejects(acquireOne(store, 'bob'), 'a request finds no connection in time')
  await queries
  await settled
  t.match(await store.peek(demand('alice', tokens)), { count: 20, held: 0 }, 'none is lost')
})

t.test('a connection that comes too late is released, and nothing is sent on it', async (t) => {
  const used = { released: 0, sent: 0, lend: () => {} }
  const lent = {
    query: async () => {
      used.sent += 1
      return { rows: [] }
    },
    release () {
      used.released += 1
    }
  }
  const late = {
    query: lent.query,
    connect: () =>
      new Promise<typeof lent>((resolve) => {
        used.lend = () => {
          resolve(lent)
        }
      })
  }
  const store = new PostgresQuotaStore({ pool: late })
  await t.rejects(acquireOne(store, 'alice'), /no response within \d+ ms/)
  const { lend } = used
  lend()
  await until('the connection is released', () => used.released > 0)
  t.same([used.released, used.sent], [1, 0])
})

t.test('a connection is lent for each call, and the pool closes one that failed', async (t) => {
  const own = server.pool({ max: 2 })
  t.teardown(() => own.end())
  const seen = { lent: 0, removed: 0 }
  own.on('acquire', () => {
    seen.lent += 1
  })
  own.on('remove', () => {
    seen.removed += 1
  })
  const store = new PostgresQuotaStore({ pool: own, rememberRejections: false })
  await acquireOne(store, 'carol')
  const { lent } = seen
  for (let request = 0; request < 5; request++) await acquireOne(store, 'carol', { limit: 100 })
  t.same(seen, { lent: lent + 5, removed: 0 })
  t.same([own.totalCount, own.idleCount], [1, 1])

  const asked = Promise.allSettled([acquireOne(store, 'carol')])
  await pool.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`
  )
  await asked
  await until('the store decides again', async () => {
    try {
      await acquireOne(store, 'carol', { limit: 100 })
      return true
    } catch {
      await sleep(20)
      return false
    }
  })
  t.equal(own.idleCount, own.totalCount, 'no connection is lost to the pool')
})

/** A proxy before the server, and a pool of one connection through it, for a test. */
async function startLink (t: Test) {
  const link = await FaultyProxy.start(server.port)
  const own = server.pool({
    connectionString: server.url.replace(String(server.port), String(link.port)),
    max: 1
  })
  t.teardown(async () => {
    await own.end()
    await link.stop()
  })
  return { link, own }
}

t.test('errors of a connection that is lent do not end the process', async (t) => {
  const { link, own } = await startLink(t)
  const store = new PostgresQuotaStore({ pool: own })
  await acquireOne(store, 'dave')
  const blocker = await pool.connect()
  t.teardown(() => {
    blocker.release()
  })
  await blocker.query('BEGIN; LOCK TABLE llm_quota')
  const failed = t.rejects(acquireOne(store, 'dave'), { code: 'ECONNRESET' })
  await until('the call waits', async () => {
    const { rows } = await pool.query('SELECT FROM pg_locks WHERE NOT granted')
    return rows.length > 0
  })
  link.reset()
  await failed
  await blocker.query('ROLLBACK')
  t.match(await acquireOne(store, 'dave'), { admitted: true })
})

/** What a server says to a session that an administrator ends. */
const endedByAdministrator = message('E', 'SFATAL\0C57P01\0Mterminating connection\0\0')
const readyForQuery = message('Z', 'I')

function message (type: string, content: string): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(length.length + content.length)
  return Buffer.concat([Buffer.from(type), length, Buffer.from(content)])
}

t.test('an error that comes together with a new connection does not end the process', async (t) => {
  let isFirst = true
  const link = await listenOnLoopback(
    createServer((downstream) => {
      const upstream = connect(server.port, '127.0.0.1')
      upstream.on('error', () => {})
      downstream.pipe(upstream)
      upstream.on('data', (chunk: Buffer) => {
        const isEnded = isFirst && chunk.includes(readyForQuery)
        if (isEnded) isFirst = false
        downstream.write(isEnded ? Buffer.concat([chunk, endedByAdministrator]) : chunk)
        if (isEnded) upstream.destroy()
      })
      upstream.on('close', () => downstream.end())
    })
  )
  const connectionString = server.url.replace(String(server.port), String(link.port))
  const own = server.pool({ connectionString })
  t.teardown(async () => {
    await own.end()
    await link.stop()
  })
  own.on('error', () => {})
  const store = new PostgresQuotaStore({ pool: own })
  await t.rejects(acquireOne(store, 'ended'))
  t.match(await acquireOne(store, 'ended'), { admitted: true, count: 1 })
})

t.test('a pool of pg can have a connect of the host that takes no callback', async (t) => {
  const own = server.pool()
  t.teardown(() => own.end())
  const connect = own.connect.bind(own)
  let lent = 0
  Object.assign(own, {
    connect: async () => {
      lent += 1
      return await connect()
    }
  })
  const store = new PostgresQuotaStore({ pool: own })
  t.match(await acquireOne(store, 'of-its-own-connect'), { count: 1 })
  t.ok(lent > 0)
})

t.test('the pool closes a connection that has become silent, and lends another one', async (t) => {
  const { link, own } = await startLink(t)
  const store = new PostgresQuotaStore({ pool: own, rememberRejections: false })
  await acquireOne(store, 'erin')
  const removed = once(own, 'remove')
  link.silence()
  await t.rejects(acquireOne(store, 'erin'), /no response within \d+ ms/)
  await removed
  t.match(await acquireOne(store, 'erin'), { admitted: true, count: 2 })
  t.equal(own.totalCount, 1)
})

t.test('a request waits while the server has too many connections', async (t) => {
  await pool.query(
    `CREATE ROLE limited LOGIN CONNECTION LIMIT 1;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO limited;
    GRANT SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO limited`
  )
  const connectionString = server.url.replace('postgres@', 'limited@')
  const [own, other] = [server.pool({ connectionString }), server.pool({ connectionString })]
  t.teardown(() => own.end())
  await other.query('SELECT')
  await t.rejects(own.query('SELECT'), { code: '53300' })
  let refused = 0
  const counting: PostgresPool = {
    query: (text, values) => own.query(text, values),
    connect: () =>
      own.connect().catch((error: unknown) => {
        refused += 1
        throw error
      })
  }
  const asked = acquireOne(new PostgresQuotaStore({ pool: counting }), 'frank')
  await until('the server has refused a connection', () => refused > 0)
  await other.end()
  t.match(await asked, { admitted: true, count: 1 })
})

t.test('a pool without a connection fails requests with its own error', async (t) => {
  const closed = new pg.Pool({ connectionString: 'postgres://postgres@127.0.0.1:1/postgres' })
  t.teardown(() => closed.end())
  await t.rejects(acquireOne(new PostgresQuotaStore({ pool: closed }), 'alice'), {
    code: 'ECONNREFUSED'
  })
})

t.test('a pool of pg can have a query of the host that takes only a text and values', async (t) => {
  const own = server.pool()
  t.teardown(() => own.end())
  const query = own.query.bind(own)
  const texts: string[] = []
  Object.assign(own, {
    query: (text: string, values: unknown[]) => {
      texts.push(text)
      return query(`/* service */ ${text}`, values)
    }
  })
  t.match(await acquireOne(new PostgresQuotaStore({ pool: own }), 'of-its-own-query'), { count: 1 })
  t.ok(texts.length > 0)
})

/**
 * A pool of pg of which the connections take statements with a name, and reject them with this
 * code.
 */
function namingPool (code: string) {
  const sent = { named: 0, unnamed: 0 }
  const query = (statement: string | object, values: unknown[] = []) => {
    sent[typeof statement === 'string' ? 'unnamed' : 'named'] += 1
    if (typeof statement === 'string') return pool.query(statement, values)
    return Promise.reject(Object.assign(new Error('rejected'), { code }))
  }
  const named = {
    totalCount: 1,
    query,
    connect: async () => ({ query, release () {} })
  }
  return { sent, pool: named }
}

t.test('a pooler without named statements gets them without a name; nothing else is sent again',
  async (t) => {
    for (const code of ['26000', '42P05']) {
      const { sent, pool } = namingPool(code)
      const store = new PostgresQuotaStore({ pool })
      t.match(await acquireOne(store, `named ${code}`), { admitted: true, count: 1 }, code)
      t.equal(sent.named, 1)
    }
    for (const code of ['42601', '57014']) {
      const { sent, pool } = namingPool(code)
      await t.rejects(acquireOne(new PostgresQuotaStore({ pool }), 'alice'), { code })
      t.same(sent, { named: 1, unnamed: 0 }, code)
    }
  }
)
