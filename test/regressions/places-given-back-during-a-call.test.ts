// A store on a server lost a place that was given back while a call was on its way which had told
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

t.test('a place that is given back while another one is being given back is free', async (t) => {
  const pool = interrupted()
  const store = new PostgresQuotaStore({ pool })
  const [first, second] = [
    await acquireOne(store, 'alice', place()),
    await acquireOne(store, 'alice', place())
  ]
  Object.assign(pool.next, { name: '_release', step: () => store.release(second, 1) })
  await store.release(first, 1)
  await pool.next.done
  t.match(await store.peek(demand('alice', place())), { count: 0 })
})

t.test('a place that is given back while a request is being rejected is free', async (t) => {
  const interruptedPool = interrupted()
  const store = new PostgresQuotaStore({ pool: interruptedPool })
  const held = await acquireOne(store, 'bob', place(2))
  await acquireOne(new PostgresQuotaStore({ pool }), 'bob', place(2))
  Object.assign(interruptedPool.next, { name: '_acquire', step: () => store.release(held, 1) })
  t.match(await acquireOne(store, 'bob', place(2)), { admitted: false })
  await interruptedPool.next.done
  t.match(await store.peek(demand('bob', place())), { count: 1 })
})

// The reply to the first call made the store forget the caller, and with it that the second place
// was still to be given back.
t.test(
  'a place that was taken and given back before the reply to a call that gives another one ' +
    'back is free',
  async (t) => {
    let reply = (): void => {}
    const isReplied = new Promise<void>((resolve) => {
      reply = resolve
    })
    const query = async (text: string, values: unknown[]) => {
      const result = await pool.query(text, values)
      if (text.includes('_release')) await isReplied
      return result
    }
    const store = new PostgresQuotaStore({ pool: { query } })
    const first = store.release(await acquireOne(store, 'carol', place()), 1)
    const second = store.release(await acquireOne(store, 'carol', place()), 1)
    reply()
    await Promise.all([first, second])
    t.match(await store.peek(demand('carol', place())), { count: 0 })
  }
)
