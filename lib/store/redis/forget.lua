-- Removes a caller's own counter. Places stay.
--
-- KEYS: the counters of the quota. ARGV: the row of the caller.
return redis.call('HDEL', KEYS[1], ARGV[1])
