-- Removes a caller's counter. KEYS: the counters of the shard. ARGV: the caller.
return redis.call('HDEL', KEYS[1], ARGV[1])
