import type { MemoryQuotaStore, QuotaStore } from '../../lib/index.js'

/** The same store, whose results are promises. */
export function asynchronous (store: MemoryQuotaStore): QuotaStore {
  return {
    acquire: async (demands) => store.acquire(demands),
    settle: async (...settled) => store.settle(...settled),
    peek: async (demand) => store.peek(demand),
    forget: async (...forgotten) => {
      store.forget(...forgotten)
    }
  }
}
