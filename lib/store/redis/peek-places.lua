-- Counts the places of a caller. Does not write.
-- include layout.part.lua
--
-- KEYS: the shard, the places of the caller. ARGV: the time of the store's own clock, negative for
-- the server's.
local now = startClock(readShard()[1], tonumber(ARGV[1]))
return tostring(redis.call('ZCOUNT', KEYS[2], '(' .. string.format('%d', now), '+inf'))
