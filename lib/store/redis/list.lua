-- Reads a page of the callers of a quota that have an open window, or places. Does not write.
-- include layout.part.lua
--
-- KEYS: the counters of the quota, and the places. A quota has one of both.
-- ARGV: the cursor, 0 for the first page; the time of the store's own clock, negative for the
-- server's; the date, in milliseconds since the epoch; the length of a period; and the row of the
-- overflow counter.
--
-- Returns the cursor of the next page, 0 if this is the last one. Then for each caller its row, and
-- four numbers: what is counted; what is held; how long the window stays open (0 in a time zone);
-- and when it ends since the epoch (0 if not in a time zone). The last two are 0 for places.
local countersKey, placesKey, cursor, overflowRow = KEYS[1], KEYS[2], ARGV[1], ARGV[5]
local time, date, periodLength = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now = time < 0 and serverTime or time
local period = math.floor(now / periodLength)
local reply = {}

-- Texts, because a client can round an integer.
local function add (row, ...)
  reply[#reply + 1] = row
  for _, number in ipairs({ ... }) do reply[#reply + 1] = string.format('%d', number) end
end

local function addCounter (row, text)
  local counter = readCounter(text, now, period, math.huge)
  local left = counter.ends - (counter.isZoned and date or now)
  if row == overflowRow or left <= 0 then return end
  if counter.isZoned then add(row, counter.count, heldOf(counter), 0, counter.ends)
  else add(row, counter.count, heldOf(counter), left, 0) end
end

local function addPlaces (row, text)
  local count, _, places = 0, cmsgpack.unpack_one(text, PLACES_AT)
  for _, ends in pairs(places) do
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
