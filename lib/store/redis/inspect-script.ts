import { windowLength, counterRetention as retentionOf } from '../counter.js'
import {
  clockField, clockFormat, epochsField, fieldsBesideRows, lastSeenPosition, pageLength, rowLength, sweepField, sweepFormat
} from './layout.js'

const counterRetention = retentionOf(windowLength)

/**
 * Counts the tracked callers of a shard, one page at a time. Does not write.
 *
 * KEYS: the shard's hash. ARGV: the cursor, initially `0`. Returns text: the number of tracked callers in the page, the number of
 * sweeps, and the next cursor, which is `0` after the last page.
 */
export const inspectScript = `
local key, call = KEYS[1], redis.call
local found = call('HMGET', key, ${clockField}, ${epochsField}, ${sweepField})
if not found[1] or not found[2] or not found[3] then return '0 0 0' end
local _, _, sweptAt = struct.unpack(${clockFormat}, found[1])
local oldest = struct.unpack('d', found[2])
local sweeps = struct.unpack(${sweepFormat}, found[3])
if sweptAt - oldest < ${counterRetention} then return string.format('%.0f %.0f 0', call('HLEN', key) - ${fieldsBesideRows}, sweeps) end

local page = call('HSCAN', key, ARGV[1], 'COUNT', ${pageLength})
local fields, tracked = page[2], 0
for place = 1, #fields, 2 do
  if #fields[place + 1] == ${rowLength} then
    local lastSeen = struct.unpack('d', fields[place + 1], ${lastSeenPosition})
    if sweptAt - lastSeen < ${counterRetention} then tracked = tracked + 1 end
  end
end
return string.format('%.0f %.0f %s', tracked, sweeps, page[1])
`
