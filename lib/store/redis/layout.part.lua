-- What the scripts know of the layout, whose keys stand in keys.ts. Times are in milliseconds,
-- those of windows in a time zone since the epoch.
local UNLIMITED = 9007199254740991 -- the greatest count, and the limit that always has room
local PAGE = 1000 -- how many rows a script looks at, or removes, at most
local call = redis.call

-- Returns the time of the store's own clock, or that of the server if it is negative.
local function nowFrom (time)
  if time >= 0 then return time end
  local server = call('TIME')
  return server[1] * 1000 + math.floor(server[2] / 1000)
end

-- A counter: from when on it is dead; what is counted; what is held of a period, and of the one
-- before; that period; when the window ends; its id; and whether it is that of a time zone.
local COUNTER, DEAD_FROM = 'dddddddB', 'd'

-- Whether a counter is new, or has changed since it was read.
local NEW, READ, CHANGED, OPENED = 0, 1, 2, 3

-- Reads a counter as it is in this period. Without a text it is new, and has no window. A clock
-- that is set back lengthens no window, whose length is `window`.
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

-- The places of a caller: when the latest ends, from when on the row is dead; then the end of each
-- place by its name, in MessagePack.
local ENDS_AT = 8 -- how many bytes stand before the ends

-- Returns the end of each place by its name; none without a text.
local function unpackPlaces (text)
  if not text then return {} end
  local _, ends = cmsgpack.unpack_one(text, ENDS_AT)
  return ends
end

local function packPlaces (ends)
  local latest = 0
  for _, placeEnds in pairs(ends) do latest = math.max(latest, placeEnds) end
  return struct.pack(DEAD_FROM, latest) .. cmsgpack.pack(ends)
end
