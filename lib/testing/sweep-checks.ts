import { ok, strictEqual } from 'node:assert/strict'
import { sweepInterval } from '../store/counter.js'
import { windowLength } from '../store/counter.js'
import { everyShard, visit, type Checks } from './visits.js'

/** Checks for the rules in docs/rules.md, "Sweep". */
export const sweepChecks: Checks = {
  async 'a sweep removes a caller that was last seen 120 s ago' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(120_000)
    await visit(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, everyShard)
  },

  async 'a sweep removes no caller that was seen less than 120 s ago' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(120_000 - 1)
    await visit(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, 2 * everyShard)
  },

  async 'a rejected request also updates the time of the last request' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(windowLength - 1)
    await visit(store, 0)
    clock.advance(120_000 - 1)
    await visit(store, everyShard)
    strictEqual((await store.inspect()).trackedCallers, 2 * everyShard)
  },

  async 'sweeps 60 s after the previous sweep, and no earlier' ({ store, clock }) {
    await visit(store, 0)
    clock.advance(sweepInterval - 1)
    await visit(store, 0)
    strictEqual((await store.inspect()).sweeps, 0)
    clock.advance(1)
    await visit(store, 0)
    const { sweeps } = await store.inspect()
    ok(sweeps > 0)
    clock.advance(sweepInterval - 1)
    await visit(store, 0)
    strictEqual((await store.inspect()).sweeps, sweeps)
    clock.advance(1)
    await visit(store, 0)
    strictEqual((await store.inspect()).sweeps, 2 * sweeps)
  }
}
