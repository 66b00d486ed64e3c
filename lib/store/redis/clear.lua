-- Removes all that a shard has, in whatever layout. KEYS: its hashes.
return redis.call('UNLINK', KEYS[1], KEYS[2])
