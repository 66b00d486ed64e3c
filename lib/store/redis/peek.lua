-- Reads the counter that a demand would reach, as it would be after a sweep if one is due. Does not write.
-- include layout.part.lua
-- include places.part.lua
--
-- KEYS: the hash of the quota. ARGV: the time in ms, 'nan' for the server's; the caller; how many callers the quota can track; the window,
-- as in the state; its end or ''; and a cursor, '0' at first. Returns the count, the milliseconds until the window ends, or its end, and 1
-- for the overflow counter; an empty list if the next request would open a new window; or the next cursor, with which the script must run
-- again, because only the remaining rows show whether the cap is reached.
local PAGE = 1000
local quota, caller, cap, window, windowEnd = { KEYS[1] }, ARGV[2], ARGV[3] + 0, ARGV[4] + 0, tonumber(ARGV[5])
local found = call('HMGET', quota[KEY], STATE, caller)
local row = found[2]
local state, time = found[1], ARGV[1] + 0
if state then
  -- include read-state.part.lua
end

if window == 0 then return { quota[NOW] and placesOf(row or '', '', quota[NOW]) or 0, 0, 0 } end
if not quota[NOW] then return {} end

local function stateOf (count, start, overflow)
  local rest = windowEnd and start or start + window - quota[NOW]
  if windowEnd and windowEnd > start or rest <= 0 then return {} end
  return { count > LARGEST_INTEGER and string.format('%.0f', count) or count, rest, overflow }
end

if row then
  local count, start, lastSeen = read(ROW, row)
  quota[NOW] = math.max(quota[NOW], lastSeen)
  return stateOf(count, start, 0)
end
if call('HLEN', quota[KEY]) - 1 < cap then return {} end
local retention = math.abs(window) + RETENTION_AFTER_WINDOW
local isSweepDue = quota[NOW] - quota[SWEPT_AT] >= SWEEP_INTERVAL
if isSweepDue then quota[SWEPT_AT] = quota[NOW] end
if quota[CURSOR] ~= ALL_CHECKED or isSweepDue and quota[NOW] - quota[OLDEST] >= retention then
  local page = call('HSCAN', quota[KEY], ARGV[6], 'COUNT', PAGE)
  for place = 1, #page[2], 2 do
    if page[2][place] ~= STATE and quota[SWEPT_AT] - read('d', page[2][place + 1], LAST_SEEN_POSITION) >= retention then return {} end
  end
  if page[1] ~= '0' then return page[1] end
end
return stateOf(quota[OVERFLOW_COUNT], quota[OVERFLOW_START], 1)
