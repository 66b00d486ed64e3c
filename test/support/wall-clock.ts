import type { Test } from 'tap'

/**
 * Replaces the wall clock until the end of a test. The monotonic clock of a host goes on by itself.
 *
 * @returns A function that sets it.
 */
export function setWallClock (t: Test): (time: string | number) => number {
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
