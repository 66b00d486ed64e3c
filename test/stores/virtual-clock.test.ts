// VirtualClock.
import t from 'tap'
import { VirtualClock } from '../../lib/testing/virtual-clock.js'

t.test('time only passes when the clock is advanced, and cannot be set back', async (t) => {
  const clock = new VirtualClock()
  const { now } = clock
  t.equal(now(), 0)
  clock.advance(1_500.5)
  t.equal(now(), 1_500.5, 'now is bound')
  for (const ms of [-1, NaN, Infinity]) {
    t.throws(
      () => {
        clock.advance(ms)
      },
      { name: 'RangeError', message: new RegExp(`got ${ms}`) }
    )
  }
})

t.test('each timer runs once, when the clock reaches its time', async (t) => {
  const clock = new VirtualClock()
  const { setTimeout, clearTimeout } = clock
  const ran: [string, number][] = []
  const note = (name: string) => () => {
    ran.push([name, clock.now()])
  }
  setTimeout(note('late'), 50)
  setTimeout(note('early'), 10)
  setTimeout(note('early as well'), 10)
  const cancelled = setTimeout(note('cancelled'), 20)
  setTimeout(() => {
    setTimeout(note('from a timer'), 5)
  }, 20)
  clearTimeout(cancelled)
  clock.advance(9)
  t.same(ran, [])
  clock.advance(41)
  t.same(ran, [['early', 10], ['early as well', 10], ['from a timer', 25], ['late', 50]])
  clock.advance(1_000)
  t.equal(ran.length, 4)
})
