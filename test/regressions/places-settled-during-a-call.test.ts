// A store on a server lost a place that was settled while a call was on its way which had told
// the server of it: it stayed taken until the end of its lease, so that of several streams that
// ended together, most kept their places for half a minute.
import { PGlite } from '@electric-sql/pglite'
import t from 'tap'
import { PostgresQuotaStore, postgresSchema } from '../../lib/postgres.js'
import { acquireOne, demand, place } from '../support/told-store.js'

const pool = await PGlite.create()
t.teardown(async () => {
  await pool.close()
})
await pool.exec(postgresSchema())

/** A pool that runs a step once while the next call of a function of the schema is on its way. */
function interrupted () {
  const next: { name: string; step: () => Promise<unknown>; done?: Promise<unknown> } = {
    name: 'none',
    step: async () => {}
  }
  return {
    next,
    async query (text: string, values: unknown[]) {
      if (text.includes(next.name)) next.done ??= next.step()
      return await pool.query(text, values)
    }
  }
}

t.test('a place that is settled while another one is being settled is free', async (t) => {
  const pool = interrupted()
  const store = new PostgresQuotaStore({ pool })
  const [first, second] = [
    await acquireOne(store, 'alice', place()),
    await acquireOne(store, 'alice', place())
  ]
  Object.assign(pool.next, { name: '_decide', step: () => store.settle(second, 0, null) })
  await store.settle(first, 0, null)
  await pool.next.done
  t.match(await store.peek(demand('alice', place())), { count: 0 })
})

t.test('a place that is settled while a request is being rejected is free', async (t) => {
  const interruptedPool = interrupted()
  const store = new PostgresQuotaStore({ pool: interruptedPool })
  const held = await acquireOne(store, 'bob', place(2))
  await acquireOne(new PostgresQuotaStore({ pool }), 'bob', place(2))
  Object.assign(interruptedPool.next, { name: '_decide', step: () => store.settle(held, 0, null) })
  t.match(await acquireOne(store, 'bob', place(2)), { admitted: false })
  await interruptedPool.next.done
  t.match(await store.peek(demand('bob', place())), { count: 1 })
})
