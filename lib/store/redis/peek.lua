-- Reads the counter that a demand would reach, as it would be after a page of a sweep if one is
-- due. Does not write.
-- include layout.part.lua
--
-- KEYS: the shard, the counters of the quota. ARGV: the caller; the time of the store's own clock,
-- negative for the server's; the cap; and when the demand's day, week or month begins (-1 without a
-- time zone).
--
-- Returns nothing if a request would open a window, or else numbers with spaces between them: the
-- count; what is held; how long the window stays open or, in a time zone, when it ends; and whether
-- the counter is that of overflow (1 or 0).
local key, caller = KEYS[2], ARGV[1]
local time, cap, starts = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local found = readShard(key, key .. ' overflow')
if not found[2] then return '' end
local now = startClock(found[1], time)
local sweptAt, _, cursor, retention = struct.unpack(QUOTA, found[2])
if cursor < 0 and now - sweptAt >= MINUTE then
  sweptAt = now
  cursor = 0
end

-- Whether the page at which the sweep is makes room for a caller.
local function makesRoom ()
  if cursor < 0 then return false end
  local page = redis.call('HSCAN', key, cursor, 'COUNT', PAGE)
  for index = 2, #page[2], 2 do
    if isDead(page[2][index], sweptAt, retention) then return true end
  end
  return false
end

local text = redis.call('HGET', key, caller)
local isOverflow = not text
if isOverflow then
  if redis.call('HLEN', key) < cap or makesRoom() then return '' end
  text = found[3]
end
local counter = readCounter(text, math.floor(now / PERIOD))
local isZoned = starts >= 0
if counter.ends <= (isZoned and starts or now) then return '' end
local leftOrEnd = isZoned and counter.ends or counter.ends - now
local overflow = isOverflow and 1 or 0
return string.format('%d %d %d %d', counter.count, heldOf(counter), leftOrEnd, overflow)
