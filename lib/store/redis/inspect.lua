-- Counts the callers of a quota that have a counter or places. Does not write.
-- include layout.part.lua
--
-- KEYS: the counters of the quota; its holders, the callers with places. A quota has one of both.
-- ARGV: the time of the store's own clock, negative for the server's; and the row of the overflow
-- counter.
local countersKey, holdersKey, overflowRow = KEYS[1], KEYS[2], ARGV[2]
local rows = call('HLEN', countersKey)
if rows > 0 then return tostring(rows - call('HEXISTS', countersKey, overflowRow)) end
local now = string.format('%d', nowFrom(tonumber(ARGV[1])))
return tostring(call('ZCOUNT', holdersKey, '(' .. now, '+inf'))
