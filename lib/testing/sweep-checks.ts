import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { checks, everyShard, fill, largeCap, smallCap, unlimited, visit } from './checks.js'

/** Checks of the rules in docs/rules.md, "Sweep". */
export const sweepChecks = [
  ...checks(smallCap, [], {
    async 'a sweep removes a caller one window and 60 s after its last request, before the caller of the request is looked up' ({ store, clock, retention }) {
      const { tracked } = await fill(store)
      clock.advance(retention)
      const later = await visit(store, everyShard)
      strictEqual(later[0]?.overflow, false)
      strictEqual(later.filter(({ overflow }) => !overflow).length, tracked.length)
    },

    async 'a sweep removes no caller earlier, whether its last request was admitted, was rejected or had a cost of 0' ({ store, clock, window, retention }) {
      for (const [limit, cost] of [[unlimited, 1], [1, 1], [unlimited, 0]] as const) {
        const { tracked } = await fill(store)
        clock.advance(window - 1)
        for (const { caller } of tracked) await store.acquire(caller, limit, cost)
        clock.advance(retention - 1)
        for (const { overflow } of await visit(store, everyShard)) strictEqual(overflow, true)
      }
    }
  }),

  ...checks(largeCap, ['inspect'], {
    async 'sweeps 60 s after the previous sweep, and no earlier' ({ store, clock }) {
      const counts: number[] = []
      for (const gap of [0, 59_999, 1, 59_999, 1]) {
        clock.advance(gap)
        await visit(store, 0)
        counts.push((await store.inspect()).sweeps)
      }
      const shards = Number(counts[2])
      ok(shards > 0)
      deepStrictEqual(counts, [0, 0, shards, shards, 2 * shards])
    }
  }),

  ...checks(smallCap, ['inspect'], {
    async 'inspect returns the number of tracked callers, without those that a sweep removed' ({ store, clock, retention }) {
      const { tracked } = await fill(store)
      strictEqual((await store.inspect()).trackedCallers, tracked.length)
      clock.advance(retention)
      await visit(store, everyShard)
      strictEqual((await store.inspect()).trackedCallers, tracked.length)
    }
  })
]
