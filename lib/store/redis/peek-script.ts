import { counterRetention as retentionOf, sweepInterval } from '../counter.js'
import { windowLength } from '../counter.js'
import {
  clockField, clockFormat, cursorPosition, epochsField, fieldsBesideRows, lastSeenPosition, packedReply, pageLength, readNow,
  rowFormat, rowLength, sweepField, sweepFormat,
  type TimeSource
} from './layout.js'

const counterRetention = retentionOf(windowLength)

/** The reply if the next request would open a new window. */
export const newWindow = 0

/**
 * Reads the state of a caller's counter, as it would be after a sweep if one is due. Does not write.
 *
 * KEYS: the shard's hash. ARGV: the caller, a cursor, initially `0`, and the time in milliseconds if the store has a clock. Returns
 * `packedReply`, `newWindow`, or `next` and the next cursor. In the last case the script must run again, because only the remaining
 * rows show whether the cap is reached.
 */
export function peekScript (maxTrackedCallers: number, timeSource: TimeSource): string {
  return `
local key, call = KEYS[1], redis.call
local found = call('HMGET', key, ${clockField}, ${epochsField}, ${sweepField}, ARGV[1])
if not found[1] or not found[2] or not found[3] then return ${newWindow} end
local offset, latest, sweptAt = struct.unpack(${clockFormat}, found[1])
local oldest = struct.unpack('d', found[2])
local now
${readNow[timeSource]}
if now < latest then now = latest end

local count, windowStart
if found[4] then
  local lastSeen
  count, windowStart, lastSeen = struct.unpack(${rowFormat}, found[4])
  if now < lastSeen then now = lastSeen end
else
  local _
  _, count, windowStart = struct.unpack(${sweepFormat}, found[3])
end
if now - windowStart >= ${windowLength} then return ${newWindow} end
if found[4] then return ${packedReply(timeSource, '0', '0')} end
if call('HLEN', key) - ${fieldsBesideRows} < ${maxTrackedCallers} then return ${newWindow} end

local isScanned = string.sub(found[3], ${cursorPosition}) == ''
if now - sweptAt >= ${sweepInterval} then sweptAt, isScanned = now, false end
if not isScanned and sweptAt - oldest >= ${counterRetention} then
  local page = call('HSCAN', key, ARGV[2], 'COUNT', ${pageLength})
  local fields = page[2]
  for place = 1, #fields, 2 do
    if #fields[place + 1] == ${rowLength} then
      local lastSeen = struct.unpack('d', fields[place + 1], ${lastSeenPosition})
      if sweptAt - lastSeen >= ${counterRetention} then return ${newWindow} end
    end
  end
  if page[1] ~= '0' then return 'next ' .. page[1] end
end
return ${packedReply(timeSource, '1', '0')}
`
}
