-- Does what one call asks, in one step and in this order: frees and renews places, settles, decides
-- on the requests, and reads the standings (`Call` in ../shared/driver.ts).
-- include layout.part.lua
--
-- It reads, decides and then writes, so that a server that refuses the first write, because it is
-- full or a replica, has changed nothing. No key is used any more after it may have become empty:
-- while its slot moves to another server of a cluster, it would be looked for there.
--
-- KEYS are the quotas, of which each is a hash with a row for each caller, then a name for each
-- settlement that is applied once. ARGV[1] has numbers of eight bytes, in the order in which they
-- are read below. Then ARGV has, in the order in which arguments.ts writes them, the rows of each
-- quota, and the names of places: of each that is freed, of each that is renewed, and for each
-- request that takes places.
-- Returns numbers: the period; for each settlement that is applied once, 1 if it was, else 0; for
-- each demand what was granted (-1 if it has no room), its count, and the id of its window; for
-- each standing its count, or -1 if its window is over. A count is four numbers: what is counted;
-- what is held; how long the window stays open or, in a time zone, when it ends (of no meaning for
-- places); and whether it is of the overflow counter (1 or 0).
--
-- Each function costs each call a thousand instructions, used or not, so there are few.
local NUMBERS = ARGV[1]
local MINUTE = 60000 -- how much longer than needed a key can stay, so that this is rarely set
local EXACT = 2 ^ 52 -- from here on, a client can round an integer, so it is returned as a text
local format, max, min, unpackNumbers = string.format, math.max, math.min, struct.unpack

local time, periodLength, placeDuration, nextWindowId, cap, quotaCount, freedCount, renewedCount,
  settlementCount, requestCount, standingCount, at = unpackNumbers('ddddddddddd', NUMBERS)
local now = time < 0 and serverTime or time
local period, placesEnd = math.floor(now / periodLength), now + placeDuration
-- How many rows are looked at together, to find dead ones: many with a cap, since there a caller is
-- counted on the overflow counter for as long as none is found.
local lookedAt = cap < math.huge and 100 or 5
local keyAt, nameAt = quotaCount, 1 -- where what was read last stands in KEYS and ARGV

-- Returns the dead ones of a few rows that are drawn at random: all, if there are no more.
local function findDead (key)
  local drawn, dead = call('HRANDFIELD', key, lookedAt, 'WITHVALUES'), {}
  for index = 1, #drawn, 2 do
    if unpackNumbers(DEAD_FROM, drawn[index + 1]) <= now then dead[#dead + 1] = drawn[index] end
  end
  return dead
end

-- Reads the places of a caller as a counter of those that have not ended, which is always open. A
-- clock that is set back keeps none for longer than a place lasts.
local function readPlaces (text)
  local count, state, places, _ = 0, NEW, {}
  if text then
    state, _, places = READ, cmsgpack.unpack_one(text, PLACES_AT)
  end
  for name, ends in pairs(places) do
    if ends <= now then
      places[name] = nil
    else
      count = count + 1
      if ends > placesEnd then places[name], state = placesEnd, CHANGED end
    end
  end
  return {
    places = places, deadFrom = placesEnd, count = count, held = UNLIMITED, heldBefore = 0,
    ends = placesEnd, id = 0, state = state
  }
end

-- Takes or renews a place.
local function hold (counter, name)
  if not counter.places[name] then counter.count = counter.count + 1 end
  counter.places[name], counter.state = placesEnd, OPENED
end

-- Read the counters of each quota. With a cap, the row of the overflow counter is among them
-- (otherwise 0), and `free` is how many callers can get a counter.
local quotas = {}
for position = 1, quotaCount do
  local window, keep, rowCount, overflowRow
  window, keep, rowCount, overflowRow, at = unpackNumbers('dddd', NUMBERS, at)
  local key = KEYS[position]
  local counters = call('HMGET', key, unpack(ARGV, nameAt + 1, nameAt + rowCount))
  for row = 1, rowCount do
    if window > 0 then counters[row] = readCounter(counters[row], now, period, window)
    else counters[row] = readPlaces(counters[row]) end
  end
  local quota = { key = key, rowsAt = nameAt, window = window, keep = keep, counters = counters }
  local overflow = counters[overflowRow]
  if overflow then
    local free = cap - call('HLEN', key) + (overflow.state == NEW and 0 or 1)
    if free <= 0 then free = free + #findDead(key) end
    quota.overflow, quota.free = overflow, free
  end
  quotas[position] = quota
  nameAt = nameAt + rowCount
end

-- Free places, then renew others.
for _ = 1, freedCount do
  local position, row
  position, row, at = unpackNumbers('dd', NUMBERS, at)
  nameAt = nameAt + 1
  local counter, name = quotas[position].counters[row], ARGV[nameAt]
  if counter.places[name] then
    counter.places[name] = nil
    counter.count, counter.state = counter.count - 1, max(counter.state, CHANGED)
  end
end
for _ = 1, renewedCount do
  local position, row
  position, row, at = unpackNumbers('dd', NUMBERS, at)
  nameAt = nameAt + 1
  hold(quotas[position].counters[row], ARGV[nameAt])
end

-- Settle: only the window that has counted changes, and what is held of the `settled` period.
local reply, remembered = { period }, {}
for _ = 1, settlementCount do
  local position, row, windowId, lessCount, lessHeld, settled, isOnce
  position, row, windowId, lessCount, lessHeld, settled, isOnce, at =
    unpackNumbers('ddddddd', NUMBERS, at)
  local quota = quotas[position]
  local counter = quota.counters[row]
  local isApplied = counter.id == windowId
  if isOnce == 1 then
    keyAt = keyAt + 1
    local key, isOpen = KEYS[keyAt], counter.ends > (counter.isZoned and serverTime or now)
    isApplied = isApplied and isOpen and not remembered[key] and call('EXISTS', key) == 0
    if isApplied then remembered[key] = quota.keep end
    reply[#reply + 1] = isApplied and 1 or 0
  end
  if isApplied then
    counter.count = max(0, counter.count - lessCount)
    local heldField = settled == period and 'held' or settled == period - 1 and 'heldBefore'
    if heldField then counter[heldField] = max(0, counter[heldField] - lessHeld) end
    counter.state = max(counter.state, CHANGED)
  end
end

-- Returns the counter of a caller: its own, or the overflow counter if it has none and as many
-- callers as the cap have one.
local function counterOf (quota, row)
  local counter = quota.counters[row]
  if counter.state == NEW and quota.overflow and quota.free <= 0 then return quota.overflow end
  return counter
end

-- Whether the window is over for a demand. `starts` and `ends` are 0 without a time zone.
local function isOver (counter, starts, ends)
  return counter.ends <= (ends > 0 and starts or now)
end

-- Opens a window. The counter is dead a minute after it is over, by the server's clock, too.
local function open (quota, counter, ends)
  if counter.state == NEW and quota.overflow and counter ~= quota.overflow then
    quota.free = quota.free - 1
  end
  counter.id, nextWindowId = nextWindowId, nextWindowId + 1
  counter.isZoned, counter.state = ends > 0, OPENED
  counter.ends, counter.deadFrom = now + quota.window, now + quota.keep
  if ends > 0 then
    counter.ends, counter.deadFrom = ends, max(counter.deadFrom, now + ends - serverTime + MINUTE)
  end
  counter.count, counter.held, counter.heldBefore = 0, 0, 0
end

local function addCount (quota, counter)
  local last, count, held = #reply, counter.count, heldOf(counter)
  if count >= EXACT then count, held = format('%d', count), format('%d', held) end
  reply[last + 1], reply[last + 2] = count, held
  reply[last + 3] = counter.isZoned and counter.ends or counter.ends - now
  reply[last + 4] = counter == quota.overflow and 1 or 0
end

-- Decide on the requests: first whether all demands have room, then what is granted. A limit that
-- always has room is infinite.
local leastOfUnit = {}
for _ = 1, requestCount do
  local size, hasPlaces
  size, hasPlaces, at = unpackNumbers('dd', NUMBERS, at)
  local firstAt, isAdmitted = at, true
  for index = 1, size do
    local position, row, limit, least, most, unit, isEstimate, starts, ends
    position, row, limit, least, most, unit, isEstimate, starts, ends, at =
      unpackNumbers('ddddddddd', NUMBERS, at)
    local quota = quotas[position]
    local counter = counterOf(quota, row)
    if isOver(counter, starts, ends) then open(quota, counter, ends) end
    local room = limit - counter.count
    if room < least or room < 1 then isAdmitted = false end
    -- What the demands of one unit would be granted alone bounds each of them. A unit is the
    -- position of its first demand.
    local alone = room < most and room or most
    if unit == index or alone < leastOfUnit[unit] then leastOfUnit[unit] = alone end
  end
  nameAt = nameAt + hasPlaces
  at = firstAt
  for _ = 1, size do
    local position, row, limit, least, most, unit, isEstimate, starts, ends
    position, row, limit, least, most, unit, isEstimate, starts, ends, at =
      unpackNumbers('ddddddddd', NUMBERS, at)
    local quota = quotas[position]
    local counter = counterOf(quota, row)
    local room, granted = limit - counter.count, 0
    if isAdmitted then
      granted = leastOfUnit[unit] > least and leastOfUnit[unit] or least
      if counter.places then
        hold(counter, ARGV[nameAt])
      else
        counter.count = min(counter.count + granted, UNLIMITED)
        if isEstimate == 1 then counter.held = counter.held + granted end
        if counter.state == READ then counter.state = CHANGED end
      end
    elseif room < least or room < 1 then
      granted = -1
    end
    reply[#reply + 1] = granted < EXACT and granted or format('%d', granted)
    addCount(quota, counter)
    reply[#reply + 1] = counter.id
  end
end

-- Read the standings, which are demands of which only these numbers are needed.
for _ = 1, standingCount do
  local position, row, starts, ends
  position, row, starts, ends, at = unpackNumbers('dddd', NUMBERS, at)
  local quota = quotas[position]
  local counter = counterOf(quota, row)
  if isOver(counter, starts, ends) then reply[#reply + 1] = -1
  else addCount(quota, counter) end
end

-- Write the rows, and see that their keys expire. Those of callers without places go last.
for _, quota in ipairs(quotas) do
  local key, rowsAt, keepFor = quota.key, quota.rowsAt, 0
  local kept, last, gone = { 'HSET', key }, 2, { 'HDEL', key }
  for row, counter in ipairs(quota.counters) do
    if counter.places and counter.count == 0 then
      if counter.state ~= NEW then gone[#gone + 1] = ARGV[rowsAt + row] end
    elseif counter.state >= CHANGED then
      kept[last + 1] = ARGV[rowsAt + row]
      if counter.places then
        kept[last + 2] = struct.pack(DEAD_FROM, counter.deadFrom) .. cmsgpack.pack(counter.places)
      else
        kept[last + 2] = struct.pack(COUNTER, counter.deadFrom, counter.count, counter.held,
          counter.heldBefore, period, counter.ends, counter.id, counter.isZoned and 1 or 0)
      end
      last = last + 2
      if counter.state == OPENED then keepFor = max(keepFor, counter.deadFrom - now) end
    end
  end
  if last > 2 then call(unpack(kept)) end
  if keepFor > 0 then
    if call('PTTL', key) < keepFor then call('PEXPIRE', key, keepFor + MINUTE) end
    -- Removes dead rows as Redis removes expired keys: goes on while most of those drawn are dead.
    for _ = 1, PAGE / lookedAt do
      local dead = findDead(key)
      if #dead > 0 then call('HDEL', key, unpack(dead)) end
      if #dead < lookedAt / 2 then break end
    end
  end
  if #gone > 2 then call(unpack(gone)) end
end
for key, keepFor in pairs(remembered) do call('SET', key, '', 'PX', keepFor) end
return reply
