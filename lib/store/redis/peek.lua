-- Reads the counter that a demand would reach, as it would be after a sweep if one is due. Does not write.
-- include layout.part.lua
--
-- KEYS: the hash of the quota. ARGV: the time in ms, '' for the server's; the caller; how many callers the quota can track; the window, as
-- in the state; its end or ''; and a cursor, '0' at first. Returns the count, the milliseconds until the window ends, or its end, and 1 for
-- the overflow counter; an empty list if the next request would open a new window; or the next cursor, with which the script must run
-- again, because only the remaining rows show whether the cap is reached.
local PAGE = 1000
local quota, caller, cap, window, windowEnd = { key = KEYS[1] }, ARGV[2], ARGV[3] + 0, ARGV[4] + 0, tonumber(ARGV[5])
local found = call('HMGET', quota.key, STATE, caller)
local row = found[2]
if found[1] then readState(quota, found[1], timeOf(tonumber(ARGV[1]))) end

if window == 0 then return { quota.now and placesOf(row or '', '', quota.now) or 0, 0, 0 } end
if not quota.now then return {} end

local function stateOf (count, start, overflow)
  if windowEnd then return windowEnd <= start and { exactly(count), start, overflow } or {} end
  local left = start + window - quota.now
  return left > 0 and { exactly(count), left, overflow } or {}
end

if row then
  local count, start, lastSeen = read(ROW, row)
  quota.now = math.max(quota.now, lastSeen)
  return stateOf(count, start, 0)
end
if call('HLEN', quota.key) - 1 < cap then return {} end
local isSweepDue = quota.now - quota.sweptAt >= SWEEP_INTERVAL
if isSweepDue then quota.sweptAt = quota.now end
if quota.cursor ~= ALL_CHECKED or isSweepDue and quota.now - quota.oldest >= retention(window) then
  local page = call('HSCAN', quota.key, ARGV[6], 'COUNT', PAGE)
  for place = 1, #page[2], 2 do
    if page[2][place] ~= STATE and quota.sweptAt - read('d', page[2][place + 1], LAST_SEEN_POSITION) >= retention(window) then return {} end
  end
  if page[1] ~= '0' then return page[1] end
end
return stateOf(quota.overflowCount, quota.overflowStart, 1)
