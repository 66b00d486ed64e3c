-- Counts the callers of a quota that have a counter, or a page of those that have places. Does not
-- write.
-- include layout.part.lua
--
-- KEYS: the counters of the quota; its holders, which have or had places. A quota has one of the
-- two. The places of each holder are in further keys: that of the holders, a space, and the caller.
-- ARGV: the cursor, 0 for the first page; the time of the store's own clock, negative for the
-- server's; and the row of the overflow counter.
--
-- Returns two texts: the cursor of the next page, 0 if this is the last one; and how many callers
-- there are.
local countersKey, holdersKey, cursor, overflowRow = KEYS[1], KEYS[2], ARGV[1], ARGV[3]
local time = tonumber(ARGV[2])
local now = string.format('(%d', time < 0 and serverTime or time)
local rows = call('HLEN', countersKey)
if rows > 0 then
  return { '0', tostring(rows - call('HEXISTS', countersKey, overflowRow)) }
end
local page, count = call('ZSCAN', holdersKey, cursor, 'COUNT', PAGE), 0
for index = 1, #page[2], 2 do
  local placesKey = holdersKey .. ' ' .. page[2][index]
  if call('ZCOUNT', placesKey, now, '+inf') > 0 then count = count + 1 end
end
return { page[1], tostring(count) }
