/**
 * Returns the time in milliseconds since the epoch. Only the windows of days, weeks and months of a
 * time zone, and the times at which windows end, where they are reported, depend on the wall clock.
 */
export function wallClock (): number {
  return Date.now()
}
