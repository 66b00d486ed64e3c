-- Removes all that a shard has. Takes longer if more callers have places, since it is for tests.
--
-- KEYS: the shard, in whatever layout. Its fields name the other keys (layout.part.lua).
local SHARD = KEYS[1]
if redis.call('TYPE', SHARD).ok == 'hash' then
  for _, field in ipairs(redis.call('HKEYS', SHARD)) do
    local key = SHARD .. ':' .. field
    if string.sub(field, 1, 7) == 'places:' then
      for _, caller in ipairs(redis.call('ZRANGE', key, 0, -1)) do
        redis.call('UNLINK', key .. ' ' .. caller)
      end
    end
    redis.call('UNLINK', key)
  end
end
return redis.call('UNLINK', SHARD)
