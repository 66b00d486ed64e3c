import { mock } from 'node:test'

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
