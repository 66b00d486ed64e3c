-- Removes a caller's own counter. Places stay.
-- include layout.part.lua
--
-- KEYS: the shard, the counters of the quota. ARGV: the caller.
readShard()
return redis.call('HDEL', KEYS[2], ARGV[1])
