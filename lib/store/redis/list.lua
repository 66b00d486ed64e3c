-- Reads a page of the callers of a quota that have an open window, or places. Does not write.
-- include layout.part.lua
--
-- KEYS: the counters of the quota; its holders, which have or had places. A quota has one of the
-- two. The places of each holder are in further keys: that of the holders, a space, and the caller.
-- ARGV: the cursor, 0 for the first page; the time of the store's own clock, negative for the
-- server's; the date, in milliseconds since the epoch; the length of a period; and the row of the
-- overflow counter.
--
-- Returns the cursor of the next page, 0 if this is the last one. Then for each caller its row, and
-- four numbers: what is counted; what is held; how long the window stays open (0 in a time zone);
-- and when it ends since the epoch (0 if not in a time zone). The last two are 0 for places.
local countersKey, holdersKey, cursor, overflowRow = KEYS[1], KEYS[2], ARGV[1], ARGV[5]
local time, date, periodLength = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now = time < 0 and serverTime or time
local period = math.floor(now / periodLength)
local reply = {}

-- Texts, because a client can round an integer.
local function add (row, ...)
  reply[#reply + 1] = row
  for _, number in ipairs({ ... }) do reply[#reply + 1] = string.format('%d', number) end
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
    local count = call('ZCOUNT', placesKey, string.format('(%d', now), '+inf')
    if count > 0 then add(caller, count, count, 0, 0) end
  end
end
return reply
