/**
 * Returns the time in milliseconds since the epoch. Only the windows of days, weeks and months
 * of a time zone, and what tells people when a window ends, depend on the wall clock.
 */
export function wallClock (): number {
  return Date.now()
}
