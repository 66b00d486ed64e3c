-- What the scripts know of the layout, whose keys stand in keys.ts. Times are in milliseconds,
-- those of windows in a time zone since the epoch.
local UNLIMITED = 9007199254740991 -- the greatest count, and the limit that always has room
local PAGE = 1000 -- how many rows a script looks at, or removes, at most

-- Returns the time of the store's own clock, or that of the server if it is negative.
local function nowFrom (time)
  if time >= 0 then return time end
  local server = redis.call('TIME')
  return server[1] * 1000 + math.floor(server[2] / 1000)
end

-- A counter: what is counted; what is held of a period, and of the one before; that period; when
-- the window ends; its id; and whether it is that of a time zone.
local COUNTER = 'ddddddB'

-- Reads a counter as it is in this period. Without a text it is new, and has no window. A clock
-- that is set back lengthens no window, whose length is `window`.
local function readCounter (text, now, period, window)
  if not text then
    return { count = 0, held = 0, heldBefore = 0, ends = 0, id = 0, isZoned = false, isNew = true }
  end
  local count, held, heldBefore, heldPeriod, ends, id, zoned = struct.unpack(COUNTER, text)
  local isZoned = zoned == 1
  local isTooLong = not isZoned and ends > now + window
  if isTooLong then ends = now + window end
  if heldPeriod ~= period then
    heldBefore = heldPeriod == period - 1 and held or 0
    held = 0
  end
  return {
    count = count, held = held, heldBefore = heldBefore, ends = ends, id = id, isZoned = isZoned,
    isNew = false, isTooLong = isTooLong
  }
end

local function writeCounter (counter, period)
  return struct.pack(COUNTER, counter.count, counter.held, counter.heldBefore, period, counter.ends,
    counter.id, counter.isZoned and 1 or 0)
end

local function heldOf (counter)
  return math.min(counter.held + counter.heldBefore, counter.count)
end
