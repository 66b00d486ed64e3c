import type { Test } from 'tap'
import type { QuotaStore } from '../../lib/store/store.js'
import type { VirtualClock } from '../../lib/testing.js'
import { acquireOne, demand } from './told-store.js'

/**
 * Checks that a window that is open on a server stays open, although its quota gets a time zone by
 * a function, or loses it: during a deployment, processes with both definitions run at once.
 */
export async function checkOpenWindow (
  t: Test,
  store: Required<QuotaStore>,
  clock: VirtualClock
): Promise<void> {
  const quota = { counters: 'team.tokens.day', window: 86_400_000, limit: 10 }
  const start = clock.now()
  const day = { ...quota, window: 2 * quota.window, start, end: start + 3_600_000 }
  const ends = clock.now() + quota.window
  const left = { windowRemaining: quota.window }
  t.match(await acquireOne(store, 'alice', quota), { count: 1, ...left })
  t.match(await acquireOne(store, 'alice', day), { count: 2, end: ends })
  t.match(await store.peek(demand('alice', day)), { count: 2, end: ends })
  t.match(await acquireOne(store, 'alice', quota), { count: 3, ...left })
  const next = { ...day, start: ends, end: ends + 1 }
  t.match(await acquireOne(store, 'alice', next), { count: 1, end: ends + 1 })
  const longer = { windowRemaining: quota.window + 1 }
  t.match(await acquireOne(store, 'alice', quota), { count: 2, ...longer })
  clock.advance(quota.window + 1)
  t.match(await acquireOne(store, 'alice', quota), { count: 1, ...left })
}
