-- The layout of a shard (docs/shared-stores.md). All scripts but clear.lua begin with it.
-- The shard, KEYS[1], is a hash. The other keys begin with its key:
--   `<shard>:windows:<quota>`          a hash: the counter of each caller
--   `<shard>:places:<quota>`           a sorted set: each caller with the end of its latest place
--   `<shard>:places:<quota> <caller>`  a sorted set: the name of each place with its end
-- Its fields are:
--   LAYOUT                             the clock
--   `<shard>:windows:<quota>`          the record of the quota
--   `<shard>:windows:<quota> overflow` its overflow counter
--   `<shard>:places:<quota>`           nothing, for clear.lua
-- The name of a quota has no space. Records are numbers of eight bytes. Times are in milliseconds.
local SHARD = KEYS[1]
local LAYOUT = 'layout:6' -- the name of a field that each shard has, but no other layout
local NEVER = -1e300 -- a time before all others
local UNLIMITED = 9007199254740991 -- the greatest count, and the limit that always has room
local MINUTE = 60000 -- the time between two sweeps, and how long a counter stays after its window
local PLACE_DURATION = '30000' -- how long a place lasts unless it is renewed, as a text
local PERIOD = 600000 -- what was admitted in this period or in the one before can be held
local PAGE = 1000 -- how many counters sweeps look at, and ended places are removed, in a script

-- Reads the clock and other fields of the shard. Refuses every other layout.
local function readShard (...)
  local found = redis.pcall('HMGET', SHARD, LAYOUT, ...)
  if not found.err and (found[1] or redis.call('EXISTS', SHARD) == 0) then return found end
  if found.err and not string.find(found.err, 'WRONGTYPE', 1, true) then error(found.err, 0) end
  local problem = ' has the layout of another version of this store: use another keyPrefix'
  error('VERSION ' .. SHARD .. problem, 0)
end

-- The clock does not run backwards: if that of the server is set back, it goes on from the latest
-- time. Window ids are microseconds or later, so each is used once even if the shard is lost. The
-- shard expires at `expires`. `time` is that of the store's own clock, negative for the server's.
local function startClock (text, time)
  local latest, offset, latestId, expires =
    struct.unpack('dddd', text or struct.pack('dddd', NEVER, 0, 0, NEVER))
  local server = redis.call('TIME')
  local microseconds = server[1] * 1000000 + server[2]
  if time < 0 then time = math.floor(microseconds / 1000) end
  local now = math.max(time + offset, latest)
  return now, now - time, math.max(latestId, microseconds), expires
end

-- The record of a quota: when it swept the last time, and how often; where the sweep continues, or
-- -1 if it is complete; how long after its last request a counter is dead; 1 if windows are those
-- of a time zone; and when the key of the counters expires.
local QUOTA = 'dddddd'

-- Whether the latest sweep removes the counter.
local function isDead (text, sweptAt, retention)
  return sweptAt - struct.unpack('d', text) >= retention
end

-- A counter, a caller's own or the overflow counter, and its window, which has an id. What was
-- admitted in the current period is `held`. Without a text, the counter is new.
local function readCounter (text, period)
  local lastSeen, count, held, heldBefore, heldPeriod, ends, id =
    struct.unpack('ddddddd', text or struct.pack('ddddddd', NEVER, 0, 0, 0, 0, NEVER, 0))
  if heldPeriod ~= period then
    heldBefore = heldPeriod == period - 1 and held or 0
    held = 0
  end
  return {
    lastSeen = lastSeen, count = count, held = held, heldBefore = heldBefore, ends = ends, id = id,
    isChanged = false
  }
end

local function heldOf (counter)
  return math.min(counter.held + counter.heldBefore, counter.count)
end
