-- Reads a page of the callers of a quota that have an open window, or places. Does not write.
-- include layout.part.lua
--
-- KEYS: the counters of the quota; its holders, the callers with places. A quota has one of both.
-- The places of each holder are in further keys: that of the holders, a space, and the caller.
-- ARGV: the cursor, 0 for the first page; the time of the store's own clock, negative for the
-- server's; the date, in milliseconds since the epoch; the length of a period; and the row of the
-- overflow counter.
--
-- Returns the cursor of the next page, 0 if this is the last one. Then for each caller its row, and
-- numbers with spaces between them: what is counted; what is held; how long the window stays open
-- (0 in a time zone); and when it ends since the epoch (0 if not in a time zone). Both are 0 for
-- places.
local countersKey, holdersKey, cursor, overflowRow = KEYS[1], KEYS[2], ARGV[1], ARGV[5]
local now, date, periodLength = nowFrom(tonumber(ARGV[2])), tonumber(ARGV[3]), tonumber(ARGV[4])
local period = math.floor(now / periodLength)
local reply = {}

local function add (caller, count, held, left, ends)
  reply[#reply + 1] = caller
  reply[#reply + 1] = string.format('%d %d %d %d', count, held, left, ends)
end

if call('EXISTS', countersKey) == 1 then
  local page = call('HSCAN', countersKey, cursor, 'COUNT', PAGE)
  reply[1] = page[1]
  for index = 1, #page[2], 2 do
    local row = page[2][index]
    local counter = readCounter(page[2][index + 1], now, period, math.huge)
    local left = counter.ends - (counter.isZoned and date or now)
    if row ~= overflowRow and left > 0 then
      if counter.isZoned then add(row, counter.count, heldOf(counter), 0, counter.ends)
      else add(row, counter.count, heldOf(counter), left, 0) end
    end
  end
else
  local page = call('ZSCAN', holdersKey, cursor, 'COUNT', PAGE)
  reply[1] = page[1]
  for index = 1, #page[2], 2 do
    local caller = page[2][index]
    local placesKey = holdersKey .. ' ' .. caller
    local count = call('ZCOUNT', placesKey, '(' .. string.format('%d', now), '+inf')
    if count > 0 then add(caller, count, count, 0, 0) end
  end
end
return reply
