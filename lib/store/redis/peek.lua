-- Reads the counter that a demand would reach, as it would be after a sweep if one is due. Does not
-- write.
-- include layout.part.lua
--
-- ARGV[1] is a JSON object:
--   time    milliseconds of the store's own clock, if it has one
--   cap     how many callers a quota can track
--   quota   the name of the quota
--   row     that of the row
--   isPlace whether the demand is one of a place
--   ends    when the demand's window ends, if it ends at a time since the epoch
--   cursor  0 at first
--
-- Returns an empty list if the next request would open a window. Otherwise the count, what is held,
-- how long the window stays open or when it ends (0 for a place), and whether this is the overflow
-- counter (1 or 0). Or a cursor, with which the script must run again, because only other rows show
-- whether the cap is reached.

-- A pattern of HSCAN for fields that begin with the prefix.
local function patternOf (prefix)
  return string.gsub(prefix, '[][*?\\^]', '\\%0') .. '*'
end

local call = cjson.decode(ARGV[1])
local found = readWindows({ CLOCK_FIELD, 'quota:' .. call.quota, call.row })
if call.isPlace then
  local total = found and redis.call('HGET', PLACES, 'total ' .. call.row)
  return { tonumber(total or 0), tonumber(total or 0), 0, 0 }
end
if not found or not found[2] then return {} end

local clock = readClock(found[1])
local now = startClock(clock, call.time or -1)
local quota = {}
readQuota(quota, found[2])
local counter = found[3] and readCounter(found[3])
if not counter then
  if quota.callers < call.cap then return {} end
  local isSweepDue = now - quota.sweptAt >= SWEEP_INTERVAL
  if isSweepDue then quota.sweptAt = now end
  if isSweepDue or clock.passes < quota.checkedAfter then
    local pattern = patternOf(call.quota .. ' ')
    local page = redis.call('HSCAN', WINDOWS, call.cursor, 'MATCH', pattern, 'COUNT', PAGE)
    for index = 1, #page[2], 2 do
      local lastSeen = struct.unpack('d', page[2][index + 1], LAST_SEEN_POSITION)
      if quota.sweptAt - lastSeen >= quota.retention then return {} end
    end
    if page[1] ~= '0' then return tonumber(page[1]) end
  end
end

local isOverflow = not counter
counter = counter or overflowOf(quota)
local isOver = now >= counter.ends
if call.ends then isOver = call.ends > counter.ends end
if isOver then return {} end
local left = call.ends and counter.ends or counter.ends - now
return { shown(counter.count), shown(counter.held), left, isOverflow and 1 or 0 }
