-- Counts the callers of a quota that have a counter or places. Does not write.
-- include layout.part.lua
--
-- KEYS: the counters of the quota; when each is dead; its holders, the callers with places. A quota
-- has counters or holders. ARGV: the time of the store's own clock, negative for the server's; and
-- the row of the overflow counter.
local countersKey, deathsKey, holdersKey, overflowRow = KEYS[1], KEYS[2], KEYS[3], ARGV[2]
local now = string.format('%d', nowFrom(tonumber(ARGV[1])))
local rows = redis.call('HLEN', countersKey)
if rows == 0 then return tostring(redis.call('ZCOUNT', holdersKey, '(' .. now, '+inf')) end
local dead = redis.call('ZCOUNT', deathsKey, '-inf', now)
return tostring(math.max(0, rows - dead - redis.call('HEXISTS', countersKey, overflowRow)))
