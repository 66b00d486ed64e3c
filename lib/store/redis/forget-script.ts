import { epochsField, lastSeenPosition } from './layout.js'
import { leaveEpoch, packEpochs, unpackEpochs } from './sweep-parts.js'

/** Removes a caller's counter. KEYS: the shard's hash. ARGV: the caller. */
export const forgetScript = `
local key, call = KEYS[1], redis.call
local found = call('HMGET', key, ${epochsField}, ARGV[1])
if not found[1] or not found[2] then return 0 end
local epochs
${unpackEpochs('found[1]')}
local lastSeen = struct.unpack('d', found[2], ${lastSeenPosition})
${leaveEpoch}
call('HSET', key, ${epochsField}, ${packEpochs})
return call('HDEL', key, ARGV[1])
`
