// An insured store whose primary has shards: each is on the primary or on the fallback by itself.
import t from 'tap'
import type { InsuredQuotaStore } from '../../lib/index.js'
import { reportChanges } from '../../lib/store/insured/change-reports.js'
import { answered, insure, publishedChanges } from '../support/told-store.js'

async function askAll (store: InsuredQuotaStore): Promise<number[]> {
  const acquired = await Promise.all(['a0', 'a1', 'a2'].map(async (caller) => store.acquire(caller, 5)))
  return acquired.map(({ count }) => count)
}

t.test('the callers of the other shards notice nothing when one shard fails', async (t) => {
  const { clock, primary, store } = insure()
  const published = publishedChanges(t)
  t.same(store.shards, { primary: [], fallback: [] })
  t.same(await askAll(store), [77, 77, 77])
  t.same(store.shards, { primary: [0, 1, 2], fallback: [] })
  primary.manners.set(1, 'hangs')
  t.same(await answered(clock, askAll(store)), [77, 1, 77])
  t.same(await askAll(store), [77, 2, 77])
  t.equal(store.state, 'both')
  t.same(store.shards, { primary: [0, 2], fallback: [1] })
  t.match(await store.peek('a1'), { count: 2 }, 'peek reads the store that answers the caller')
  t.match(await store.peek('a0'), { count: 77 })

  for (const shard of [0, 2]) primary.manners.set(shard, 'throws')
  t.same(await askAll(store), [1, 3, 1])
  t.equal(store.state, 'fallback')

  clock.advance(100)
  for (const shard of [0, 1]) primary.manners.set(shard, 'promises')
  t.same(await askAll(store), [77, 77, 2])
  t.equal(store.state, 'both')
  clock.advance(100)
  primary.manners.set(2, 'promises')
  t.same(await askAll(store), [77, 77, 77])
  t.equal(store.state, 'primary')
  t.same(store.answers, { primary: 3 + 2 + 2 + 2 + 3, fallback: 1 + 1 + 3 + 1 })
  t.same(published.map(({ shard, state }) => [shard, state]), [
    [1, 'fallback'], [0, 'fallback'], [2, 'fallback'], [0, 'primary'], [1, 'primary'], [2, 'primary']
  ], 'each change of a shard is published once')
})

t.test('changes of many shards are reported at once where the state changes, and together otherwise', async (t) => {
  const { clock, primary, store } = insure()
  const reports: object[] = []
  const end = reportChanges(store, ({ state, shards: { primary, fallback }, error }) => { reports.push({ state, primary, fallback, error: error instanceof Error && error.message }) }, clock)
  for (let shard = 0; shard < 9; shard++) await store.acquire(`a${shard}`, 5)
  for (const shard of [3, 4, 5]) primary.manners.set(shard, 'rejects')
  for (let shard = 0; shard < 9; shard++) await store.acquire(`a${shard}`, 5)
  t.match(reports, [{ state: 'both', fallback: [3], error: 'rejected' }])
  clock.advance(2_000)
  t.match(reports.slice(1), [{ state: 'both', primary: [0, 1, 2, 6, 7, 8], fallback: [3, 4, 5], error: 'rejected' }])

  for (const shard of [3, 4, 5]) primary.manners.set(shard, 'promises')
  for (const shard of [3, 4, 5]) await store.acquire(`a${shard}`, 5)
  t.match(reports.slice(2), [{ state: 'primary', fallback: [] }])
  clock.advance(10_000)
  t.equal(reports.length, 3)

  primary.manners.set(3, 'rejects')
  await store.acquire('a3', 5)
  primary.manners.set(4, 'rejects')
  await store.acquire('a4', 5)
  clock.advance(100)
  primary.manners.set(4, 'promises')
  await store.acquire('a4', 5)
  clock.advance(2_000)
  t.equal(reports.length, 4, 'a shard that has recovered by then is not reported')
  primary.manners.set(4, 'rejects')
  await store.acquire('a4', 5)
  end()
  clock.advance(10_000)
  primary.manners.set(5, 'rejects')
  await store.acquire('a5', 5)
  t.equal(reports.length, 4, 'no report follows the end')
})
