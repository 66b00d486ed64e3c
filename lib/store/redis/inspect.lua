-- Reads how many callers of a quota have a counter or places, and how often the quota has swept.
-- include layout.part.lua
--
-- KEYS: the shard, the counters of the quota, and its callers with places. A quota has one of both.
-- ARGV: the time of the store's own clock, negative for the server's.
--
-- Returns both numbers with a space between them.
local found = readShard(KEYS[2])
if found[2] then
  local _, sweeps = struct.unpack(QUOTA, found[2])
  return string.format('%d %d', redis.call('HLEN', KEYS[2]), sweeps)
end
local now = startClock(found[1], tonumber(ARGV[1]))
return redis.call('ZCOUNT', KEYS[3], '(' .. string.format('%d', now), '+inf') .. ' 0'
