import { VirtualClock } from '../../lib/testing.js'

/** Replaces `performance.now` with a virtual clock, for code that has no clock option. */
export function virtualPerformance (t: { teardown(restore: () => void): void }): VirtualClock {
  const clock = new VirtualClock()
  Object.defineProperty(performance, 'now', { configurable: true, value: clock.now })
  t.teardown(() => {
    Reflect.deleteProperty(performance, 'now')
  })
  return clock
}
