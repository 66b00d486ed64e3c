// Requests in flight in an insured store: a place goes back to the store that gave it.
import t from 'tap'
import { answered, insure, pass } from '../support/insured.js'

t.test('a place is taken from the primary, and from the fallback if the primary fails', async (t) => {
  for (const manner of ['throws', 'rejects', 'hangs', 'answers nonsense', 'promises nonsense'] as const) {
    const { clock, primary, fallback, store } = insure()
    const onPrimary = await store.enter('a', 2)
    t.match(onPrimary, { admitted: true, count: 77 })
    primary.manner = manner
    const onFallback = await answered(clock, store.enter('a', 2))
    t.match(onFallback, { admitted: true, count: 1 }, manner)
    t.equal(store.state, 'fallback')
    t.match(await store.enter('a', 1), { admitted: false, count: 1 })
    primary.manner = 'promises'
    primary.places = 1
    await onPrimary.leave?.()
    t.equal(primary.places, 0, 'the place goes back to the primary, which answers again')
    t.match(fallback.enter('a', 0), { count: 1 })
    await onFallback.leave?.()
    t.match(fallback.enter('a', 0), { count: 0 })
    await pass(clock, 100)
    t.match(await store.enter('a', 2), { count: 77 })
    t.equal(store.state, 'primary', 'an entry ends the outage')
  }
})

t.test('a place that the primary gives too late is given back', async (t) => {
  const { clock, primary, store } = insure()
  primary.manner = 'answers late'
  t.match(await answered(clock, store.enter('a', 2)), { admitted: true, count: 1 })
  t.equal(primary.places, 1)
  await pass(clock, 60)
  t.equal(primary.places, 0)
})

t.test('leave never fails', async (t) => {
  for (const manner of ['throws', 'rejects', 'answers nonsense'] as const) {
    const { primary, store } = insure()
    const { leave } = await store.enter('a', 2)
    primary.manner = manner
    await t.resolves(async () => leave?.())
  }
})
