// An inspect that hung made an insured store switch to its fallback, and one that worked restored a primary whose acquire still failed.
import t from 'tap'
import { InsuredQuotaStore, MemoryQuotaStore, type QuotaStore } from '../../lib/index.js'

t.test('an inspect that fails does not switch admissions to the fallback', async (t) => {
  for (const inspect of [() => new Promise<never>(() => {}), () => Promise.reject(new Error('rejected')), () => { throw new Error('thrown') }]) {
    const memory = new MemoryQuotaStore()
    const primary: QuotaStore = {
      acquire: (callerKey, limit) => memory.acquire(callerKey, limit),
      peek: (callerKey) => memory.peek(callerKey),
      forget: (callerKey) => { memory.forget(callerKey) },
      clearCounters: () => { memory.clearCounters() },
      inspect
    }
    const store = new InsuredQuotaStore({ primary, timeout: 20 })
    await store.acquire('a', 5)
    const hanging = store.inspect()
    // The store's own timer does not keep the process alive.
    const alive = setInterval(() => {}, 1_000)
    await hanging
    clearInterval(alive)
    t.equal(store.state, 'primary')
    t.match(await store.acquire('a', 5), { count: 2 })
  }
})

t.test('an inspect that succeeds does not restore a primary whose acquire fails', async (t) => {
  const primary: QuotaStore = {
    acquire: () => Promise.reject(new Error('OOM command not allowed')),
    peek: async () => null,
    forget: async () => {},
    clearCounters: async () => {},
    inspect: async () => ({ trackedCallers: 77, sweeps: 0 })
  }
  const store = new InsuredQuotaStore({ primary, coolDown: Number.MIN_VALUE })
  await store.acquire('a', 5)
  t.same(await store.inspect(), { trackedCallers: 1, sweeps: 0 })
  t.equal(store.state, 'fallback')
})
