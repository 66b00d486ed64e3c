// The public contract, "Testing": VirtualClock.
import t from 'tap'
import { VirtualClock } from '../lib/testing/virtual-clock.js'

t.test('time passes only when it is told to', async (t) => {
  const clock = new VirtualClock()
  const { now } = clock
  t.equal(now(), 0)
  clock.advance(1_500.5)
  clock.advance(0)
  t.equal(now(), 1_500.5, 'now is bound')
})

t.test('time that does not go forward is refused', async (t) => {
  for (const ms of [-1, NaN, Infinity]) t.throws(() => { new VirtualClock().advance(ms) }, { name: 'RangeError', message: new RegExp(`got ${ms}`) })
})
