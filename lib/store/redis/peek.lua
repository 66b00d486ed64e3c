-- Reads the state of a caller's counter, as it would be after a sweep if one is due. Does not write. acquire.lua describes the hash.
--
-- Constants above this text: WINDOW and CAP, as for acquire.lua. KEYS: the counters of the shard. ARGV: the caller, a cursor, '0' at first,
-- and the time in ms or ''. Returns text: the count, the milliseconds until the window ends, and 1 for the overflow counter; or the next
-- cursor, with which the script must run again, because only the remaining rows show whether the cap is reached. NEW_WINDOW if the next
-- request would open a new window.
local NEW_WINDOW = 0
local STATE, CLOCK, SWEEP, SWEEP_POSITION = '\255', 'ddd', 'ddddd', 25
local ALL_CHECKED = -1
local ROW, LAST_SEEN_POSITION, ROW_LENGTH = 'ddd', 17, 24
local SWEEP_INTERVAL, RETENTION = 60000, WINDOW + 60000
local PAGE = 1000

local key, call, read = KEYS[1], redis.call, struct.unpack
local found = call('HMGET', key, STATE, ARGV[1])
if not found[1] then return NEW_WINDOW end
local offset, latest, sweptAt = read(CLOCK, found[1])
local left = call('PTTL', key)
local now = offset + (tonumber(ARGV[3]) or -left)
if now < latest or left < 0 then now = latest end

local function counter (count, windowStart, overflow)
  if now - windowStart >= WINDOW then return NEW_WINDOW end
  return string.format('%.0f %.17g %d', count, windowStart + WINDOW - now, overflow)
end

if found[2] then
  local count, windowStart, lastSeen = read(ROW, found[2])
  now = math.max(now, lastSeen)
  return counter(count, windowStart, 0)
end
if call('HLEN', key) - 1 < CAP then return NEW_WINDOW end

local _, overflowCount, overflowStart, oldest, cursor = read(SWEEP, found[1], SWEEP_POSITION)
local isSweepDue = now - sweptAt >= SWEEP_INTERVAL
if isSweepDue then sweptAt = now end
if cursor ~= ALL_CHECKED or isSweepDue and now - oldest >= RETENTION then
  local page = call('HSCAN', key, ARGV[2], 'COUNT', PAGE)
  for place = 2, #page[2], 2 do
    local row = page[2][place]
    if #row == ROW_LENGTH and sweptAt - read('d', row, LAST_SEEN_POSITION) >= RETENTION then return NEW_WINDOW end
  end
  if page[1] ~= '0' then return page[1] end
end
return counter(overflowCount, overflowStart, 1)
