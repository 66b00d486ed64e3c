-- Reads a page of the callers of a quota that have an open window, or places.
-- include layout.part.lua
--
-- KEYS: the shard, the counters of the quota, and its callers with places. A quota has one of both.
-- The places of each caller are in further keys. ARGV: the cursor, 0 for the first page; the time
-- of the store's own clock, negative for the server's; and the date, in milliseconds since the
-- epoch.
--
-- Returns the cursor of the next page, 0 if this is the last one. Then for each caller its key, and
-- numbers with spaces between them: the count; what is held; how long the window stays open (0 in a
-- time zone); and when it ends since the epoch (0 if not in a time zone). Both are 0 for places.
local cursor, time, date = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local found = readShard(KEYS[2])
local now = startClock(found[1], time)
local record = found[2]
local isZoned = record and select(5, struct.unpack(QUOTA, record)) == 1
local page = record and redis.call('HSCAN', KEYS[2], cursor, 'COUNT', PAGE) or
  redis.call('ZSCAN', KEYS[3], cursor, 'COUNT', PAGE)
local reply = { page[1] }

local function add (caller, count, held, left, ends)
  reply[#reply + 1] = caller
  reply[#reply + 1] = string.format('%d %d %d %d', count, held, left, ends)
end

for index = 1, #page[2], 2 do
  local caller, text = page[2][index], page[2][index + 1]
  if record then
    local counter = readCounter(text, math.floor(now / PERIOD))
    if isZoned then
      if counter.ends > date then add(caller, counter.count, heldOf(counter), 0, counter.ends) end
    elseif counter.ends > now then
      add(caller, counter.count, heldOf(counter), counter.ends - now, 0)
    end
  else
    local places = KEYS[3] .. ' ' .. caller
    local count = redis.call('ZCOUNT', places, '(' .. string.format('%d', now), '+inf')
    if count > 0 then add(caller, count, count, 0, 0) end
  end
end
return reply
