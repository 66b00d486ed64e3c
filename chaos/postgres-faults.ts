import type pg from 'pg'
import type { Fault } from './incident.js'
import type { PostgresNode } from './postgres-node.js'
import type { Random } from './random.js'

const briefly = (random: Random): number => random.integer(50, 1_500)
const terminate =
  'SELECT pg_terminate_backend(pid) FROM pg_stat_activity ' +
  "WHERE backend_type = 'client backend' AND application_name <> 'administrator';"

/** Faults of a PostgreSQL server. */
export const postgresFaults: Readonly<Record<string, Fault<PostgresNode>>> = {
  kill: ({ server }, random) => ({
    description: 'is killed, and started again with its unlogged tables empty',
    lasts: random.integer(50, 2_000),
    begin: () => server.kill(),
    end: () => server.start().then(() => 1)
  }),
  restart: ({ server }) => ({
    description: 'is restarted',
    lasts: 50,
    begin: () => server.restart()
  }),
  freeze: (node, random) => ({
    description: 'is frozen',
    lasts: random.integer(50, 2_500),
    begin: () => {
      node.signal('SIGSTOP')
    },
    end: async () => {
      node.signal('SIGCONT')
    }
  }),
  terminate: (node, random) => ({
    description: 'terminates its backends, again and again',
    lasts: 50,
    async begin () {
      for (let left = random.integer(1, 20); left > 0; left--) await node.administer(terminate)
    }
  }),
  readOnly: (node, random) => ({
    description: 'terminates its backends, and is read-only',
    lasts: briefly(random),
    begin: () =>
      node.administer(
        `ALTER DATABASE postgres SET default_transaction_read_only = on; ${terminate}`
      ),
    // An operator who ends this state ends the connections as well.
    end: () =>
      node.administer(`ALTER DATABASE postgres RESET default_transaction_read_only; ${terminate}`)
  }),
  lock (node, random) {
    let pool: pg.Pool | undefined
    return {
      description: 'a migration locks the tables',
      lasts: briefly(random),
      async begin () {
        pool = node.administrator()
        await pool.query('BEGIN')
        await pool.query('LOCK TABLE llm_quota, llm_quota_places')
      },
      async end () {
        await pool?.query('ROLLBACK')
        await pool?.end()
      }
    }
  }
}
