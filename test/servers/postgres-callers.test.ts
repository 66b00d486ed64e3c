// The number of callers of each quota, which PostgreSQL keeps beside the counters.
import fc from 'fast-check'
import t from 'tap'
import { postgresSchema } from '../../lib/postgres.js'
import { SchemaFunctions } from '../../lib/store/postgres/functions.js'
import { PostgresDriver } from '../../lib/store/postgres/postgres-driver.js'
import { asking, send, start } from '../support/driver-checks.js'
import { startPostgres } from '../support/postgres-server.js'
import { assertProperty } from '../support/property.js'
import { until } from '../support/until.js'
import { demand } from '../support/demands.js'

const { server, pool } = await startPostgres(t)

type Pool = ConstructorParameters<typeof SchemaFunctions>[0]

function driverOn (pool: Pool, cap = Infinity): PostgresDriver {
  const functions = new SchemaFunctions(pool, 'llm_quota', false)
  return new PostgresDriver(functions, { cap, hasJournal: false })
}

t.beforeEach(() => driverOn(pool).clear(null))

/** The quotas of which the number that is kept is not that of the rows. */
async function differences (): Promise<unknown[]> {
  const { rows } = await pool.query(
    `SELECT counters, found.callers AS found, kept.callers AS kept
    FROM (
      SELECT counters, count(*) AS callers FROM llm_quota
      WHERE caller <> '"overflow"' GROUP BY counters
    ) AS found
    FULL JOIN llm_quota_callers AS kept USING (counters)
    WHERE coalesce(found.callers, 0) <> coalesce(kept.callers, 0)`
  )
  return rows
}

const caller = fc.integer({ min: 0, max: 9 })
const quota = fc.constantFrom('minute', 'hour')

/** What a call asks, of a store with this cap. */
interface Asked {
  readonly cap: number
  readonly demands: readonly { readonly quota: string; readonly caller: number }[]
}

const asked: fc.Arbitrary<Asked> = fc.record({
  cap: fc.constantFrom(3, 6, Infinity),
  demands: fc.array(fc.record({ quota, caller }), { minLength: 1, maxLength: 12 })
})

/** What can happen to the counters, and how often. */
const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('ask' as const), asked }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('roll back' as const), asked }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('forget' as const), quota, caller }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete' as const), caller }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      seconds: fc.constantFrom(1, 61, 125, 4_000)
    })
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('clear', 'truncate', 'migrate') })
  }
)

t.test('the number of callers is that of the rows, whatever happens to them', async (t) => {
  const client = await pool.connect()
  t.teardown(() => {
    client.release()
  })
  await assertProperty(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
      let time = start
      await driverOn(pool).clear(time)
      const ask = async (on: Pool, { cap, demands }: Asked) => {
        const wanted = demands.map(({ quota: counters, caller }) =>
          demand(`caller ${caller}`, { counters, window: counters === 'hour' ? 3_600_000 : 60_000 })
        )
        await send(driverOn(on, cap), asking(wanted, { time }))
      }
      for (const next of steps) {
        switch (next.kind) {
          case 'ask':
            await ask(pool, next.asked)
            break
          case 'roll back':
            await client.query('BEGIN')
            await ask({ query: (text, values) => client.query(text, values) }, next.asked)
            await client.query('ROLLBACK')
            break
          case 'forget':
            await driverOn(pool).forget(next.quota, `caller ${next.caller}`, time)
            break
          case 'delete':
            await pool.query('DELETE FROM llm_quota WHERE caller = $1', [
              `caller\\u0020${next.caller}`
            ])
            break
          case 'wait':
            time += next.seconds * 1_000
            break
          case 'clear':
            await driverOn(pool).clear(time)
            break
          case 'truncate':
            await pool.query('TRUNCATE llm_quota')
            break
          default:
            await pool.query(postgresSchema())
        }
        t.same(await differences(), [], JSON.stringify(next))
      }
    }),
    { numRuns: 15 }
  )
})

t.test('a cap holds beside processes without one, and once it is lowered or raised', async (t) => {
  const ask = async (cap: number, ...callers: string[]) => {
    const { decided } = await send(driverOn(pool, cap), asking(callers.map((name) => demand(name))))
    return decided.map(([only]) => only?.overflow)
  }
  t.same(await ask(Infinity, 'a', 'b', 'c'), [false, false, false])
  t.same(await ask(4, 'd', 'e', 'd'), [false, true, false])
  t.same(await ask(2, 'a', 'f'), [false, true])
  t.same(await ask(Infinity, 'f'), [false])
  t.same(await ask(6, 'e', 'g'), [false, true])
  t.same(await differences(), [])
})

t.test('a host can delete counters while others are opened', async (t) => {
  await send(driverOn(pool), asking([demand('a'), demand('b')]))
  const host = await pool.connect()
  t.teardown(() => {
    host.release()
  })
  await host.query("BEGIN; DELETE FROM llm_quota WHERE caller = 'a'")
  const opening = send(driverOn(pool), asking([demand('c')]))
  await until('the call waits for the host', async () => {
    const { rows } = await pool.query(
      "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    )
    return rows.length === 1
  })
  await host.query('COMMIT')
  t.match(await opening, { decided: [[{ admitted: true }]] })
  t.same(await differences(), [])
})

t.test('a server that was killed has lost the number with the counters', async (t) => {
  await send(driverOn(pool, 2), asking(['a', 'b', 'c'].map((name) => demand(name))))
  await server.kill()
  await server.start()
  const left = await pool.query('SELECT FROM llm_quota UNION ALL SELECT FROM llm_quota_callers')
  t.same(left.rows, [])
  const again = asking(['c', 'd', 'e'].map((name) => demand(name)))
  const { decided } = await send(driverOn(pool, 2), again)
  t.same(decided.map(([only]) => only?.overflow), [false, false, true])
  t.same(await differences(), [])
})

t.test('beside an old snapshot, a new caller reads no old versions of the number', async (t) => {
  const pagesOf = async (name: string) => {
    let pages = NaN
    const explaining = driverOn(
      {
        query: async (text, values) => {
          if (!text.includes('_decide"')) return await pool.query(text, values)
          const explain = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`
          const { rows } = await pool.query(explain, values)
          const [{ Plan: plan }] = rows[0]['QUERY PLAN']
          pages = plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
          return { rows: [] }
        }
      },
      1_000_000
    )
    await t.rejects(send(explaining, asking([demand(name)])), /no row with a column/)
    return pages
  }
  await send(driverOn(pool), asking([demand('a')]))
  const other = await pool.connect()
  t.teardown(() => {
    other.release()
  })
  await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM llm_quota')
  await pagesOf('b')
  const before = await pagesOf('c')
  await pool.query(
    `DO $$ BEGIN
      FOR change IN 1 .. 20000 LOOP
        UPDATE llm_quota_callers SET callers = callers
        WHERE ctid = (llm_quota_callers_of('default')).row_id;
      END LOOP;
    END $$`
  )
  const after = await pagesOf('d')
  await other.query('ROLLBACK')
  t.ok(after < before + 20, `${before} and ${after} pages`)
  t.same(await differences(), [])
})
