-- Removes a caller's own counter. Places stay.
--
-- KEYS: the counters of the quota; when each is dead. ARGV: the row of the caller.
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
