import { mock } from 'node:test'
import { VirtualClock } from '../../lib/testing.js'

/** What runs a function at the end of a test. */
interface Teardown {
  teardown(restore: () => void): void
}

/** Replaces `performance.now` with a virtual clock, for code that has no clock option. */
export function virtualPerformance (t: Teardown): VirtualClock {
  const clock = new VirtualClock()
  Object.defineProperty(performance, 'now', { configurable: true, value: clock.now })
  t.teardown(() => {
    Reflect.deleteProperty(performance, 'now')
  })
  return clock
}

/**
 * Replaces the wall clock until the end of a test. The monotonic clock of a server goes on by
 * itself.
 *
 * @returns A function that sets it.
 */
export function setWallClock (t: Teardown): (time: string | number) => number {
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  return (time) => {
    const ms = typeof time === 'string' ? Date.parse(time) : time
    Date.now = () => ms
    return ms
  }
}

/** Clocks and timers that a test controls, in place of those of its process. */
export class VirtualTime {
  /** The monotonic time in milliseconds. */
  now = 0

  start (): void {
    mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'], now: 1e12 })
    Object.defineProperty(performance, 'now', { configurable: true, value: () => this.now })
  }

  stop (): void {
    mock.timers.reset()
    Reflect.deleteProperty(performance, 'now')
  }

  /** In steps so small that no timer runs late that another one has set. */
  advance (ms: number): void {
    const step = 50
    for (let left = ms; left > 0; left -= step) {
      this.now += Math.min(left, step)
      mock.timers.tick(Math.min(left, step))
    }
  }
}
