// The journal of PostgreSQL: the sum of a window's rows is what the window counts, always.
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { PostgresQuotaStore, postgresSchema } from '../../lib/postgres.js'
import { VirtualClock } from '../../lib/testing.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { plainEnvironment } from '../support/environment.js'
import { matchExactly } from '../support/match-exactly.js'
import { startPostgres } from '../support/postgres-server.js'
import { until } from '../support/until.js'

const { server, pool } = await startPostgres(t)
await pool.query(postgresSchema({ table: 'billed', unlogged: false, journal: true }))

function createStore (clock?: () => number): PostgresQuotaStore {
  return new PostgresQuotaStore({
    pool,
    table: 'billed',
    journal: true,
    rememberRejections: false,
    ...(clock !== undefined && { clock })
  })
}

const alice = String(callerKey(localAuthentication('alice')))

t.beforeEach(async () => {
  await createStore().clearCounters()
  await pool.query('DELETE FROM billed_journal')
})

const tokens = (most: number, reference: string | null = 'request 1') =>
  estimate(most, { limit: 1_000, reference })

/** The rows of the journal, in the order in which they were written. */
async function rows (): Promise<unknown[]> {
  const found = await pool.query(
    `SELECT counters, caller_key AS caller, change::integer, reference
    FROM billed_journal ORDER BY at`
  )
  return found.rows
}

/** The windows whose count is not the sum of their rows. */
async function differences (): Promise<unknown[]> {
  const found = await pool.query(
    `SELECT counters, caller, counter.count, counter.journaled, journal.sum
    FROM (
      SELECT counters, caller, count, journaled,
        to_timestamp(first_end / 1000.0) AS window_end
      FROM billed
    ) AS counter
    FULL JOIN (
      SELECT counters, caller_key AS caller, window_end, sum(change) FROM billed_journal
      GROUP BY 1, 2, 3
    ) AS journal USING (counters, caller, window_end)
    WHERE coalesce(counter.count, 0) <> coalesce(journal.sum, 0)
      OR coalesce(counter.journaled, 0) <> coalesce(journal.sum, 0)`
  )
  return found.rows
}

t.test('an admission, a settlement and what was used beyond are rows', async (t) => {
  const store = createStore()
  const { receipt } = await acquireOne(store, 'alice', tokens(50))
  await store.settle(receipt, { count: 20, held: 50 })
  await acquireOne(store, 'alice', { ...tokens(7), limit: Number.MAX_SAFE_INTEGER })
  t.same(
    await rows(),
    [50, -20, 7].map((change) => ({
      counters: 'chat.tokens.day',
      caller: 'alice',
      change,
      reference: 'request 1'
    }))
  )
  t.same(await differences(), [])
})

t.test('a row has the time, and the end of the window', async (t) => {
  const store = createStore()
  const before = Date.now()
  await acquireOne(store, 'alice', { ...tokens(5), window: 60_000 })
  const end = Date.UTC(2100, 0)
  const month = { counters: 'chat.tokens.month', start: Date.UTC(2099, 11), end }
  await acquireOne(store, 'alice', { ...tokens(5), ...month })
  const { rows: [first, second] } = await pool.query('SELECT * FROM billed_journal ORDER BY at')
  const at = first.at.getTime()
  t.ok(at >= before - 1 && at <= Date.now() + 1, 'the server has the clock of this machine')
  const length = first.window_end.getTime() - at
  t.ok(length > 59_000 && length <= 60_000, `the window ends after ${length} ms`)
  t.equal(second.window_end.getTime(), end)
})

t.test('requests, places, shadow quotas and rejected requests have no rows', async (t) => {
  const store = createStore()
  const shadow = tokens(5, null)
  const [, taken, counted] = await store.acquire([
    demand(alice),
    demand(alice, place()),
    demand(alice, shadow)
  ])
  await store.settle(taken?.receipt, { count: 1, held: 1 })
  await store.settle(counted?.receipt, { count: 2, held: 5 })
  t.match(await acquireOne(store, alice, { ...tokens(5), limit: 5 }), { admitted: false })
  await store.forget('chat.tokens.day', alice)
  t.same(await rows(), [])
})

t.test('settlements that arrive together are rows of their own, never below 0', async (t) => {
  const store = createStore()
  const receipts = []
  for (const reference of ['one', 'two', 'three']) {
    receipts.push((await acquireOne(store, 'alice', tokens(10, reference))).receipt)
  }
  await Promise.all(receipts.map((receipt) => store.settle(receipt, { count: 14, held: 10 })))
  const changes = (await rows()).map((row) => [Object(row).reference, Object(row).change])
  t.same(changes.slice(3).sort(), [['one', -14], ['three', -2], ['two', -14]])
  matchExactly(t, await store.peek(demand('alice', tokens(1))), { count: 0, held: 0 })
  t.same(await differences(), [])
})

t.test('a settlement that is applied once is one row', async (t) => {
  const store = createStore()
  const { receipt } = await acquireOne(store, 'alice', tokens(10))
  const less = { count: 4, held: 10 }
  const applied = [
    await store.settle(receipt, less, 'job 1'),
    await store.settle(receipt, less, 'job 1')
  ]
  t.same(applied, [true, false])
  t.same((await rows()).length, 2)
  t.same(await differences(), [])
})

t.test('forgetting and clearing take off what an open window counts', async (t) => {
  const store = createStore()
  for (const caller of [alice, 'bob']) await acquireOne(store, caller, tokens(9))
  await store.forget('chat.tokens.day', alice)
  await acquireOne(store, alice, tokens(3))
  t.same(await differences(), [])
  await store.clearCounters()
  const changes = (await rows()).map((row) => [Object(row).caller, Object(row).change])
  t.same(changes.slice(0, 4), [[alice, 9], ['bob', 9], [alice, -9], [alice, 3]])
  t.same(changes.slice(4).sort(), [[alice, -3], ['bob', -9]].sort())
  t.same(await differences(), [])
})

t.test('what a window that is over has counted stays in the journal', async (t) => {
  const clock = new VirtualClock()
  const store = createStore(clock.now)
  await acquireOne(store, alice, { ...tokens(9), window: 60_000 })
  const past = { counters: 'chat.tokens.month', start: 1_000, end: 2_000 }
  await acquireOne(store, alice, { ...tokens(9), ...past })
  clock.advance(60_000)
  await store.forget('chat.tokens.day', alice)
  await store.clearCounters()
  t.same((await rows()).map((row) => Object(row).change), [9, 9])
})

t.test('a window has one end in the journal, even if the clock is set back', async (t) => {
  let now = 10_000_000
  const store = createStore(() => now)
  await acquireOne(store, 'alice', { ...tokens(9), window: 60_000 })
  now -= 50_000
  const { receipt } = await acquireOne(store, 'alice', { ...tokens(9), window: 60_000 })
  await store.settle(receipt, { count: 2, held: 9 })
  t.same(await differences(), [])
  const { rows: ends } = await pool.query('SELECT DISTINCT window_end FROM billed_journal')
  t.equal(ends.length, 1)
})

t.test('a reference can be any text, and is stored as in JSON', async (t) => {
  const store = createStore()
  const references = ['a b', 'é', '\0', '"\\', '\ud800', '🦊']
  for (const reference of references) await acquireOne(store, 'alice', tokens(1, reference))
  const stored = (await rows()).map((row) => Object(row).reference)
  t.same(stored.map((text) => JSON.parse(`"${text}"`)), references)
  t.ok(stored.every((text) => /^[ -~]*$/.test(text)), 'in ASCII')
})

t.test('a journal and a store without one, and the reverse, are named', async (t) => {
  const without = new PostgresQuotaStore({ pool, table: 'billed' })
  await t.rejects(acquireOne(without, 'alice'), /the table billed has a journal, .* journal: true$/)
  const store = new PostgresQuotaStore({ pool, journal: true })
  await t.rejects(acquireOne(store, 'alice'), /the table llm_quota has no journal: run the SQL/)
  const changed = [
    postgresSchema({ table: 'billed', unlogged: false }),
    postgresSchema({ unlogged: false, journal: true })
  ]
  for (const sql of changed) {
    await t.rejects(pool.query(sql), /was created with another value of the option journal/)
  }
})

t.test('a journal needs tables that a crash does not empty', (t) => {
  for (const unlogged of [undefined, true]) {
    const options = { journal: true, ...(unlogged !== undefined && { unlogged }) }
    t.throws(() => postgresSchema(options), {
      code: 'FST_ERR_LLM_QUOTA_OPTION',
      message: /option journal can be true only with unlogged: false/
    })
  }
  t.end()
})

/** Returns the blocks of docs/postgres.md that contain a text, for the table of these tests. */
function documented (text: string): string {
  const page = readFileSync('docs/postgres.md', 'utf8').replaceAll('llm_quota', 'billed')
  const blocks = [...page.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, block = '']) => block)
  return blocks.filter((block) => block.includes(text)).join('\n')
}

t.test('the documented query returns the bill of a month', async (t) => {
  const store = createStore()
  const [start, end] = [Date.UTC(2026, 10), Date.UTC(2026, 11)]
  const month = { counters: 'chat.microdollars.month.UTC', unit: 'microdollars', limit: 1e9 }
  const spend = (caller: string, most: number, reference: string, from = start, to = end) =>
    acquireOne(store, caller, {
      ...tokens(most, reference),
      ...month,
      window: 2_678_400_000,
      start: from,
      end: to
    })
  const { receipt } = await spend('alice', 500, 'one')
  await store.settle(receipt, { count: 200, held: 500 })
  await spend('alice', 50, 'two')
  await spend('bob', 900, 'three')
  await spend('bob', 1_000, 'four', end, Date.UTC(2027, 0))
  await acquireOne(store, 'alice', tokens(5))
  const { rows } = await pool.query(documented('SELECT caller_key'))
  t.same(rows, [
    { caller_key: 'bob', microdollars: '900', requests: '1' },
    { caller_key: 'alice', microdollars: '350', requests: '2' }
  ])
})

t.test('months can be partitions of the journal', async (t) => {
  await pool.query(documented('CREATE TABLE'))
  const month = { counters: 'chat.tokens.month', start: Date.UTC(2026, 11), end: Date.UTC(2027, 0) }
  await acquireOne(createStore(), 'alice', { ...tokens(5), ...month })
  const { rows: inMonth } = await pool.query('SELECT change FROM billed_journal_2026_12')
  t.same(inMonth, [{ change: '5' }])
  await pool.query('DROP TABLE billed_journal_2026_12')
})

/** Starts a process that counts, settles, forgets and clears until it is killed. */
async function startWriter (): Promise<ChildProcess> {
  const writer = fork('build/test/support/journal-writer.js', [server.url], {
    env: plainEnvironment(),
    // Without the modules of tap, which take longer than all else.
    execArgv: []
  })
  t.teardown(() => writer.kill('SIGKILL'))
  await once(writer, 'message')
  return writer
}

async function countRows (): Promise<number> {
  const found = await pool.query('SELECT count(*)::integer FROM billed_journal')
  return found.rows[0].count
}

t.test(
  'the sum of a window is its count after processes were killed at any moment',
  { timeout: 120_000 },
  async (t) => {
    for (let round = 0; round < 3; round++) {
      const before = await countRows()
      const writers = await Promise.all([startWriter(), startWriter()])
      await until('the processes have written', async () => (await countRows()) > before + 20)
      await sleep(Math.random() * 300)
      for (const writer of writers) {
        const ended = once(writer, 'exit')
        writer.kill('SIGKILL')
        await ended
      }
      // The server may still run the last statement of each.
      await until('the server is idle', async () => {
        const { rows: running } = await pool.query(
          `SELECT FROM pg_stat_activity
          WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE '%billed_%'`
        )
        return running.length === 0
      })
      t.same(await differences(), [], `round ${round}`)
    }
    t.ok((await countRows()) > 50, `${await countRows()} rows`)
  }
)

t.test(
  'the sum of a window is its count after PostgreSQL was killed at any moment',
  { timeout: 120_000 },
  async (t) => {
    for (let round = 0; round < 2; round++) {
      const before = await countRows()
      const writer = await startWriter()
      await until('the process has written', async () => (await countRows()) > before + 20)
      await sleep(Math.random() * 300)
      await server.kill()
      writer.kill('SIGKILL')
      await server.start()
      t.same(await differences(), [], `round ${round}`)
    }
    t.ok((await countRows()) > 50, `${await countRows()} rows`)
  }
)
