-- Removes all keys of a shard. KEYS: its register.
for _, key in ipairs(redis.call('SMEMBERS', KEYS[1])) do redis.call('UNLINK', key) end
return redis.call('UNLINK', KEYS[1])
