-- Removes all that the store has. Takes longer if more callers have places, since it is for tests.
--
-- KEYS: the list of all quotas, which are the keys of counters and of holders.
-- ARGV: what follows the key of counters in that of when they are dead.
local quotasKey, deaths = KEYS[1], ARGV[1]
for _, key in ipairs(redis.call('SMEMBERS', quotasKey)) do
  if redis.call('TYPE', key).ok == 'zset' then
    for _, caller in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('UNLINK', key .. ' ' .. caller)
    end
  end
  redis.call('UNLINK', key, key .. deaths)
end
return redis.call('UNLINK', quotasKey)
