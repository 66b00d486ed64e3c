-- Reads a page of the callers of a quota that have an open window, or places. Does not write.
-- include layout.part.lua
--
-- KEYS: the counters of the quota, and the places. A quota has one of both.
-- ARGV: the cursor, 0 for the first page; the time of the store's own clock, negative for the
-- server's; the date, in milliseconds since the epoch; the length of a period; and the row of the
-- overflow counter.
--
-- Returns the cursor of the next page, 0 if this is the last one. Then for each caller its row, and
-- numbers with spaces between them: what is counted; what is held; how long the window stays open
-- (0 in a time zone); and when it ends since the epoch (0 if not in a time zone). Both are 0 for
-- places.
local countersKey, placesKey, cursor, overflowRow = KEYS[1], KEYS[2], ARGV[1], ARGV[5]
local now, date, periodLength = nowFrom(tonumber(ARGV[2])), tonumber(ARGV[3]), tonumber(ARGV[4])
local period = math.floor(now / periodLength)
local reply = {}

local function add (row, count, held, left, ends)
  reply[#reply + 1] = row
  reply[#reply + 1] = string.format('%d %d %d %d', count, held, left, ends)
end

local function addCounter (row, text)
  local counter = readCounter(text, now, period, math.huge)
  local left = counter.ends - (counter.isZoned and date or now)
  if row == overflowRow or left <= 0 then return end
  if counter.isZoned then add(row, counter.count, heldOf(counter), 0, counter.ends)
  else add(row, counter.count, heldOf(counter), left, 0) end
end

local function addPlaces (row, text)
  local count = 0
  for _, ends in pairs(unpackPlaces(text)) do
    if ends > now then count = count + 1 end
  end
  if count > 0 then add(row, count, count, 0, 0) end
end

local hasCounters = call('EXISTS', countersKey) == 1
local key, addRow = placesKey, addPlaces
if hasCounters then key, addRow = countersKey, addCounter end
local page = call('HSCAN', key, cursor, 'COUNT', PAGE)
reply[1] = page[1]
for index = 1, #page[2], 2 do addRow(page[2][index], page[2][index + 1]) end
return reply
