// The parts that the scripts share are inlined in each of them, because every run of a script would create Lua functions again.
import { counterRetention as retentionOf, sweepInterval } from '../counter.js'
import { windowLength } from '../counter.js'

const counterRetention = retentionOf(windowLength)

/** How long a key lives after the latest sweep, in milliseconds. A later request would run a sweep that finds every row dead. */
const expiry = counterRetention + sweepInterval

// The names of the fields contain the byte 255, which never occurs in UTF-8. Clients send text in UTF-8, so no caller's key can
// be equal to one of these names.

/**
 * The field that every decision reads. It holds the offset of the clock, the latest time known, the time of the latest sweep, and
 * the start of the current epoch.
 */
export const clockField = "'\\255clock'"
export const clockFormat = "'dddd'"

/**
 * The field that is written when a row is first used in an epoch. It holds the start of each epoch and the number of rows whose last
 * request was in it, earliest epoch first. No row's last request is before the start of the first epoch.
 */
export const epochsField = "'\\255epochs'"

/**
 * The field that only sweeps and the requests of new callers use. It holds the number of sweeps, the overflow counter's count and
 * window start, the earliest last request that the current scan has found, and the scan's cursor as text, which is empty when the
 * scan is complete. The name is longer than 64 bytes so that the server stores the hash as a table. In a compact encoding, each
 * look-up is a linear search.
 */
export const sweepField = `'\\255sweep${'.'.repeat(60)}'`
export const sweepFormat = "'dddd'"
export const cursorPosition = 33

/** The number of fields of the hash that are not rows. */
export const fieldsBesideRows = 3

/**
 * A row holds the count, the start of the window, and the time of the last request, which is at `lastSeenPosition`. Only rows have
 * a value of `rowLength` bytes.
 */
export const rowFormat = "'ddd'"
export const rowLength = 24
export const lastSeenPosition = 17

/** The source of the time: the server, or the last parameter of the script. */
export type TimeSource = 'server' | 'given'

/**
 * Sets `now`. Requires the values of the clock field. The server's time is derived from the key's own time to live, which is
 * the cheapest clock that a script can read.
 */
export const readNow: Readonly<Record<TimeSource, string>> = {
  server: `
  local left = call('PTTL', key)
  now = left < 0 and latest - 1 or offset - left`,
  given: `
  now = offset + ARGV[#ARGV]`
}

/** Updates the key's time to live without changing `now`. */
export const updateExpiry: Readonly<Record<TimeSource, string>> = {
  server: `
  call('PEXPIRE', key, ${expiry})
  offset = now + call('PTTL', key)`,
  given: `
  call('PEXPIRE', key, ${expiry})`
}

/** The value of `now` when a shard is created. */
export const firstNow: Readonly<Record<TimeSource, string>> = { server: '0', given: 'tonumber(ARGV[#ARGV])' }

/** The approximate number of rows that one script scans, which takes the server one or two milliseconds. */
export const pageLength = 1_000

/** Larger counts are returned as text, because Lua's numbers are exact only up to 2^53. */
const countsAsText = 2 ** 25

/**
 * Returns a Lua expression that packs the reply for a counter with `count` and `windowStart` into one integer: the count, 26 bits
 * for the microseconds left in the window, one bit for the overflow counter, and one bit for an admitted request.
 */
export function packedReply (timeSource: TimeSource, overflow: '0' | '1', admitted: string): string {
  const left = `(${windowLength} - (now - windowStart)) * 1000`
  const microseconds = timeSource === 'server' ? left : `math.max(1, math.floor(${left} + 0.5))`
  return `count < ${countsAsText} and count * ${2 ** 28} + ${microseconds} * 4 + ${Number(overflow) * 2} + ${admitted}
    or string.format('%.0f %.0f ${overflow} %.0f', count, ${microseconds}, ${admitted})`
}
