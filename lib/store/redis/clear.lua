-- Removes all that a shard has. Takes longer if more callers have places, since it is for tests.
--
-- KEYS: the shard, in whatever layout. In this one, fields are the other keys (layout.part.lua).
local SHARD = KEYS[1]
local BEGINNING = SHARD .. ':'
if redis.call('TYPE', SHARD).ok == 'hash' then
  for _, key in ipairs(redis.call('HKEYS', SHARD)) do
    if string.sub(key, 1, #BEGINNING) == BEGINNING then
      if redis.call('TYPE', key).ok == 'zset' then
        for _, caller in ipairs(redis.call('ZRANGE', key, 0, -1)) do
          redis.call('UNLINK', key .. ' ' .. caller)
        end
      end
      redis.call('UNLINK', key)
    end
  end
end
return redis.call('UNLINK', SHARD)
