-- The layout of a shard, which docs/shared-stores.md describes. This file stands in front of each
-- script.
--
-- KEYS[1] is the hash of the shard's windows, KEYS[2] that of its places. Records are numbers of
-- eight bytes each, in the order that the functions below read and write. Times are milliseconds of
-- the shard's clock. The build puts the values of names that are marked <const> where the names
-- are, so that a function that uses them costs nothing more to create, which each run of a script
-- does.
local WINDOWS <const> = KEYS[1]
local PLACES <const> = KEYS[2]

-- The key of WINDOWS never moves, and the version is in the name of a field that a shard always
-- has. So a hash without this field has another layout, older or newer.
local CLOCK_FIELD <const> = 'layout:4'
-- Before any request, and when the window of a counter that has none ends.
local NEVER <const> = -1e300
-- The greatest count, and the limit that always has room.
local UNLIMITED <const> = 9007199254740991
-- The minimum time between two sweeps of a quota.
local SWEEP_INTERVAL <const> = 60000
-- A row stays for its window and this time after its last request.
local RETENTION_AFTER_WINDOW <const> = 60000
-- How long places count after the latest call of the process that holds them.
local LEASE <const> = 30000
-- The cursor of a pass over a hash that is not under way.
local NO_PASS <const> = -1
-- How many rows a pass looks at in one script, which takes one or two milliseconds.
local PAGE <const> = 1000

-- A counter is a caller's own, in its row, or a quota's overflow counter.
local COUNTER <const> = 'ddddd'
local COUNTER_LENGTH <const> = 40
local LAST_SEEN_POSITION <const> = 33

local function newCounter ()
  return { count = 0, held = 0, ends = NEVER, id = 0, lastSeen = NEVER }
end

local function readCounter (text)
  local count, held, ends, id, lastSeen = struct.unpack(COUNTER, text)
  return { count = count, held = held, ends = ends, id = id, lastSeen = lastSeen }
end

local function writeCounter (counter)
  return struct.pack(
    COUNTER, counter.count, counter.held, counter.ends, counter.id, counter.lastSeen
  )
end

-- A quota has swept `sweeps` times, the last time at `sweptAt`; its rows have all been looked at
-- since then when the shard has finished `checkedAfter` passes. `callers` is the number of its
-- rows. `isZoned` is 1 if its windows are days or months of a time zone. It expires as a key would,
-- at `expires` of the server's own time, if no request has reached it for so long that all of its
-- rows are dead.
local QUOTA <const> = 'ddddddd'
local QUOTA_LENGTH <const> = 56

local function readQuota (quota, text)
  quota.sweptAt, quota.sweeps, quota.checkedAfter, quota.callers, quota.retention, quota.isZoned,
  quota.expires =
    struct.unpack(QUOTA, text)
  quota.overflowText = string.sub(text, QUOTA_LENGTH + 1)
end

-- The first request starts the interval between sweeps.
local function createQuota (quota, now)
  readQuota(quota, struct.pack(QUOTA, now, 0, 0, 0, 0, 0, 0) .. writeCounter(newCounter()))
end

local function overflowOf (quota)
  quota.overflow = quota.overflow or readCounter(quota.overflowText)
  return quota.overflow
end

local function writeQuota (quota)
  local own = struct.pack(
    QUOTA, quota.sweptAt, quota.sweeps, quota.checkedAfter, quota.callers, quota.retention,
    quota.isZoned, quota.expires
  )
  return own .. (quota.overflow and writeCounter(quota.overflow) or quota.overflowText)
end

-- The clock: the latest time, and what was added to the server's time to get it. Also the latest id
-- of a window, how many passes over the windows have finished, the cursor of the one that is under
-- way, and when WINDOWS expires.
local CLOCK <const> = 'dddddd'

local function readClock (text)
  if not text then
    return { latest = NEVER, offset = 0, lastId = 0, passes = 0, cursor = NO_PASS, expires = NEVER }
  end
  local latest, offset, lastId, passes, cursor, expires = struct.unpack(CLOCK, text)
  return {
    latest = latest, offset = offset, lastId = lastId,
    passes = passes, cursor = cursor, expires = expires
  }
end

local function writeClock (clock)
  return struct.pack(
    CLOCK, clock.latest, clock.offset, clock.lastId, clock.passes, clock.cursor, clock.expires
  )
end

-- Returns the time now, which does not run backwards: where the server's clock is set back, it goes
-- on from the latest time. Ids of windows are microseconds of the server, so that they are used
-- once even if the shard is lost.
--
-- time: that of the store's own clock, negative for the server's
local function startClock (clock, time)
  local server = redis.call('TIME')
  local microseconds = server[1] * 1000000 + server[2]
  clock.serverTime = math.floor(microseconds / 1000)
  if time < 0 then time = clock.serverTime end
  clock.latest = math.max(time + clock.offset, clock.latest)
  clock.offset = clock.latest - time
  clock.lastId = math.max(clock.lastId, microseconds)
  return clock.latest
end

-- Reads fields of WINDOWS, of which the first one is CLOCK_FIELD. Refuses every other layout.
-- Returns a list, or nil if there is nothing.
local function readWindows (fields)
  local found = redis.pcall('HMGET', WINDOWS, unpack(fields))
  if found[1] then return found end
  if found.err and not string.find(found.err, 'WRONGTYPE', 1, true) then error(found.err, 0) end
  if redis.call('EXISTS', WINDOWS) == 1 then
    error('VERSION ' .. WINDOWS ..
      ' has the layout of another version of this store: use another keyPrefix', 0)
  end
  return nil
end

-- Clients read an integer of more than 52 bits inexactly, but not a text.
local function shown (number)
  return number > 4503599627370496 and string.format('%.0f', number) or number
end
