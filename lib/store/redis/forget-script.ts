import { clockField, clockFormat, lastSeenPosition, marksField, marksFormat } from './layout.js'

/** Removes a caller's counter. KEYS: the shard's hash. ARGV: the caller. */
export const forgetScript = `
local key, call = KEYS[1], redis.call
local found = call('HMGET', key, ${clockField}, ${marksField}, ARGV[1])
if not found[1] or not found[2] or not found[3] then return 0 end
local _, _, _, mark = struct.unpack(${clockFormat}, found[1])
local oldest, marked, tracked = struct.unpack(${marksFormat}, found[2])
if struct.unpack('d', found[3], ${lastSeenPosition}) >= mark then marked = marked - 1 end
call('HSET', key, ${marksField}, struct.pack(${marksFormat}, oldest, marked, tracked - 1))
return call('HDEL', key, ARGV[1])
`
