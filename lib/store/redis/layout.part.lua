-- What the scripts know of the layout, whose keys stand in keys.ts. Times are in milliseconds,
-- those of windows in a time zone since the epoch.
local UNLIMITED = 9007199254740991 -- the greatest count, and the limit that always has room
local PAGE = 1000 -- how many rows a script looks at, or removes, at most
local call = redis.call

-- The time of the server's clock, a text of seconds and one of microseconds.
local serverSeconds, serverMicroseconds = unpack(call('TIME'))
local serverTime = serverSeconds * 1000 + math.floor(serverMicroseconds / 1000)

-- A counter: from when on it is dead; what is counted; what is held of a period, and of the one
-- before; that period; when the window ends; its id; and whether it is that of a time zone.
local COUNTER, DEAD_FROM = 'dddddddB', 'd'

-- What has become of a counter, in this order: it has no row yet; is as it was read; has changed;
-- has a new window.
local NEW, READ, CHANGED, OPENED = 0, 1, 2, 3

-- Reads a counter as it is in this period. Without a text it is new, and has no window. If the
-- clock was set back, a window ends no later than if it opened now, with the length `window`.
local function readCounter (text, now, period, window)
  if not text then
    return {
      deadFrom = 0, count = 0, held = 0, heldBefore = 0, ends = 0, id = -1, isZoned = false,
      state = NEW
    }
  end
  local deadFrom, count, held, heldBefore, heldPeriod, ends, id, zoned =
    struct.unpack(COUNTER, text)
  local isZoned, state = zoned == 1, READ
  if not isZoned and ends > now + window then ends, state = now + window, CHANGED end
  if heldPeriod ~= period then
    heldBefore = heldPeriod == period - 1 and held or 0
    held = 0
  end
  return {
    deadFrom = deadFrom, count = count, held = held, heldBefore = heldBefore, ends = ends, id = id,
    isZoned = isZoned, state = state
  }
end

local function heldOf (counter)
  local held = counter.held + counter.heldBefore
  return held < counter.count and held or counter.count
end
