-- Does what one call asks, in one step and in this order: frees and renews places, settles, decides
-- on the requests, and reads the standings (`Call` in ../shared/driver.ts).
-- include layout.part.lua
--
-- ARGV[1] has numbers of eight bytes, in the order in which they are read below. The other
-- arguments and KEYS are read in this order, in which arguments.ts writes them:
--   KEYS  the list of all quotas; for each quota with windows its counters, and when each is dead;
--         for each quota of concurrent requests its holders, the callers with places; for each
--         holder its places; for each settlement that is applied once, its name
--   ARGV  for each quota with windows its rows; for each holder the caller, and the places that are
--         freed and renewed; for each request that takes places, their name
-- Returns numbers with spaces between them: the period; for each settlement that is applied once, 1
-- if it was, else 0; for each demand what was granted (-1 if it has no room), its count, and the id
-- of its window; for each standing its count, or -1 if its window is over. A count is four numbers:
-- what is counted; what is held; how long the window stays open or, in a time zone, when it ends (0
-- for places); and whether it is of the overflow counter (1 or 0).
local NUMBERS = ARGV[1]
local MINUTE = 60000 -- how much longer than needed a key can stay, so that this is rarely set
local format, unpackNumbers = string.format, struct.unpack

local time, periodLength, placeDuration, nextWindowId, cap, quotaCount, concurrentCount,
  holderCount, settlementCount, requestCount, standingCount, at =
  unpackNumbers('ddddddddddd', NUMBERS)
local now = nowFrom(time)
local period = math.floor(now / periodLength)
-- Times are texts here, because a number costs a command twice as much.
local nowText, placesEnd = format('%d', now), format('%d', now + placeDuration)

local keyAt, nameAt = 0, 1
local function nextKey ()
  keyAt = keyAt + 1
  return KEYS[keyAt]
end
local function nextNames (count)
  local first = nameAt + 1
  nameAt = nameAt + count
  return { unpack(ARGV, first, nameAt) }
end
local quotasKey = nextKey()

-- Read the counters. With a cap, the row of the overflow counter is among those of a quota
-- (otherwise 0), and the callers with a counter that is not dead are counted.
local quotas = {}
for position = 1, quotaCount do
  local window, keep, rowCount, overflowRow
  window, keep, rowCount, overflowRow, at = unpackNumbers('dddd', NUMBERS, at)
  local key, deathsKey, rows = nextKey(), nextKey(), nextNames(rowCount)
  local counters = redis.call('HMGET', key, unpack(rows))
  for row = 1, rowCount do
    counters[row] = readCounter(counters[row], now, period, window)
  end
  local overflow, tracked = counters[overflowRow], 0
  if overflow then
    local dead = redis.call('ZCOUNT', deathsKey, '-inf', nowText)
    tracked = redis.call('HLEN', key) - dead - (overflow.isNew and 0 or 1)
  end
  quotas[position] = {
    key = key, deathsKey = deathsKey, window = window, keep = keep, rows = rows,
    counters = counters, overflow = overflow, tracked = tracked
  }
end

-- Free and renew places. A place lasts until its time in the places of its holder, and the holder
-- until its time among the holders.
local holdersKeys, isHeldIn, removable = {}, {}, PAGE
for position = 1, concurrentCount do holdersKeys[position] = nextKey() end

local function removeEnded (key)
  local ended = math.min(redis.call('ZCOUNT', key, '-inf', nowText), removable)
  if ended > 0 then redis.call('ZREMRANGEBYRANK', key, 0, ended - 1) end
  removable = removable - ended
end

-- The places last from now on, whether the holder has them or not.
local function hold (holder, places)
  local command = { 'ZADD', holder.key }
  for _, place in ipairs(places) do
    local last = #command
    command[last + 1], command[last + 2] = placesEnd, place
  end
  redis.call(unpack(command))
  redis.call('PEXPIRE', holder.key, placeDuration)
  redis.call('ZADD', holder.holdersKey, placesEnd, holder.caller)
  isHeldIn[holder.holdersKey] = true
end

local function countPlaces (holder)
  local all = redis.call('ZCARD', holder.key)
  local lasting = all > 0 and redis.call('ZCOUNT', holder.key, '(' .. nowText, placesEnd) or 0
  if lasting == all then return all end
  removeEnded(holder.key)
  -- A clock that is set back keeps no place for longer than a place lasts.
  local late = redis.call('ZRANGEBYSCORE', holder.key, '(' .. placesEnd, '+inf', 'LIMIT', 0, PAGE)
  if #late > 0 then hold(holder, late) end
  return redis.call('ZCOUNT', holder.key, '(' .. nowText, '+inf')
end

local holders = {}
for position = 1, holderCount do
  local concurrent, freedCount, renewedCount
  concurrent, freedCount, renewedCount, at = unpackNumbers('ddd', NUMBERS, at)
  local holder = {
    key = nextKey(), holdersKey = holdersKeys[concurrent], caller = nextNames(1)[1], taken = {}
  }
  local freed, renewed = nextNames(freedCount), nextNames(renewedCount)
  if freedCount > 0 and redis.call('ZREM', holder.key, unpack(freed)) > 0 then
    if redis.call('EXISTS', holder.key) == 0 then
      redis.call('ZREM', holder.holdersKey, holder.caller)
    end
  end
  if renewedCount > 0 then hold(holder, renewed) end
  holders[position] = holder
end

local function isOpen (counter)
  return counter.ends > (counter.isZoned and nowFrom(-1) or now)
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
    local key = nextKey()
    isApplied = isApplied and isOpen(counter) and not remembered[key] and
      redis.call('EXISTS', key) == 0
    if isApplied then remembered[key] = quota.keep end
    reply[#reply + 1] = isApplied and 1 or 0
  end
  if isApplied then
    counter.count = math.max(0, counter.count - lessCount)
    local heldField = settled == period and 'held' or settled == period - 1 and 'heldBefore'
    if heldField then counter[heldField] = math.max(0, counter[heldField] - lessHeld) end
    counter.isChanged = true
  end
end

-- Returns the counter of a caller: its own, or the overflow counter if it has none and as many
-- callers as the cap have one.
local function counterOf (quota, row)
  local counter = quota.counters[row]
  if counter.isNew and quota.overflow and quota.tracked >= cap then return quota.overflow end
  return counter
end

-- Whether the window is over for a demand. `starts` and `ends` are 0 without a time zone.
local function isOver (counter, starts, ends)
  return counter.ends <= (ends > 0 and starts or now)
end

-- Returns the counter that a demand reaches, and opens a window if the last one is over.
local function reach (quota, row, starts, ends)
  local counter = counterOf(quota, row)
  if isOver(counter, starts, ends) then
    if counter.isNew and counter ~= quota.overflow then quota.tracked = quota.tracked + 1 end
    counter.id, nextWindowId = nextWindowId, nextWindowId + 1
    counter.isZoned = ends > 0
    counter.ends = counter.isZoned and ends or now + quota.window
    counter.count, counter.held, counter.heldBefore = 0, 0, 0
    counter.isNew, counter.isOpened, counter.isChanged = false, true, true
  end
  -- What a clock that was set back has shortened stays short.
  counter.isChanged = counter.isChanged or counter.isTooLong
  return counter
end

-- Returns the places of a holder, with the fields of a counter.
local function reachPlaces (holder)
  if not holder.count then
    holder.count = countPlaces(holder)
    holder.held, holder.heldBefore, holder.ends, holder.id = holder.count, 0, now, 0
  end
  return holder
end

-- As reachPlaces, but changes nothing.
local function lookAtPlaces (holder)
  if holder.count then return holder end
  local count = redis.call('ZCOUNT', holder.key, '(' .. nowText, '+inf')
  return { count = count, held = count, heldBefore = 0, ends = now }
end

local function addCount (quota, counter)
  local leftOrEnd = counter.isZoned and counter.ends or counter.ends - now
  local isOverflow = quota and counter == quota.overflow
  reply[#reply + 1] = format('%d %d %d %d', counter.count, heldOf(counter), leftOrEnd,
    isOverflow and 1 or 0)
end

-- Decide on the requests. The quota's position is 0 for a place, whose row is that of its holder.
for _ = 1, requestCount do
  local size, hasPlaces
  size, hasPlaces, at = unpackNumbers('dd', NUMBERS, at)
  local place = nextNames(hasPlaces)[1]
  local demands, isAdmitted, leastOfUnit = {}, true, {}
  for index = 1, size do
    local position, row, limit, least, most, unit, isEstimate, starts, ends
    position, row, limit, least, most, unit, isEstimate, starts, ends, at =
      unpackNumbers('ddddddddd', NUMBERS, at)
    local quota = quotas[position]
    local counter = quota and reach(quota, row, starts, ends) or reachPlaces(holders[row])
    local hasRoom = limit == UNLIMITED or counter.count + math.max(least, 1) <= limit
    -- What the demands of one unit would be granted alone bounds each of them.
    local alone = limit == UNLIMITED and most or math.min(most, limit - counter.count)
    leastOfUnit[unit] = math.min(leastOfUnit[unit] or alone, alone)
    isAdmitted = isAdmitted and hasRoom
    demands[index] = {
      quota = quota, counter = counter, hasRoom = hasRoom, least = least, unit = unit,
      isEstimate = isEstimate == 1
    }
  end
  for _, demand in ipairs(demands) do
    local counter, granted = demand.counter, 0
    if isAdmitted then
      granted = math.max(demand.least, leastOfUnit[demand.unit])
      counter.count = math.min(counter.count + granted, UNLIMITED)
      if demand.isEstimate then counter.held = counter.held + granted end
      counter.isChanged = true
      if counter.taken then table.insert(counter.taken, place) end
    end
    reply[#reply + 1] = format('%d', demand.hasRoom and granted or -1)
    addCount(demand.quota, counter)
    reply[#reply + 1] = format('%d', counter.id)
  end
end

-- Read the standings, which are demands of which only these numbers are needed.
for _ = 1, standingCount do
  local position, row, starts, ends
  position, row, starts, ends, at = unpackNumbers('dddd', NUMBERS, at)
  local quota = quotas[position]
  local counter = quota and counterOf(quota, row) or lookAtPlaces(holders[row])
  if quota and isOver(counter, starts, ends) then reply[#reply + 1] = '-1'
  else addCount(quota, counter) end
end

-- Write what has changed: places first, since a slot of a cluster can be moving, and a key that was
-- emptied above cannot be written then.
for _, holder in ipairs(holders) do
  if #holder.taken > 0 then hold(holder, holder.taken) end
end
-- When a counter is dead: not before its window is over, whose end may be told by another clock.
local function deathOf (quota, counter)
  local left = counter.isZoned and counter.ends - nowFrom(-1) + MINUTE or 0
  return format('%d', now + math.max(quota.keep, left))
end

for _, quota in ipairs(quotas) do
  local changed, opened = { 'HSET', quota.key }, { 'ZADD', quota.deathsKey }
  for row, counter in ipairs(quota.counters) do
    if counter.isChanged then
      local last = #changed
      changed[last + 1], changed[last + 2] = quota.rows[row], writeCounter(counter, period)
    end
    if counter.isOpened then
      local last = #opened
      opened[last + 1], opened[last + 2] = deathOf(quota, counter), quota.rows[row]
    end
  end
  if #changed > 2 then redis.call(unpack(changed)) end
  if #opened > 2 then
    redis.call(unpack(opened))
    quota.isOpened = true
  end
end
for key, keep in pairs(remembered) do redis.call('SET', key, '', 'PX', keep) end

-- See that each key expires, and remove what is dead.
local function lastFor (key, keep)
  local isTooShort = redis.call('PTTL', key) < keep
  if isTooShort then redis.call('PEXPIRE', key, keep + MINUTE) end
  return isTooShort
end
local function list (key, keep)
  redis.call('SADD', quotasKey, key)
  lastFor(quotasKey, keep)
end
for _, quota in ipairs(quotas) do
  if quota.isOpened then
    if lastFor(quota.key, quota.keep) then list(quota.key, quota.keep) end
    lastFor(quota.deathsKey, quota.keep)
    local dead = redis.call('ZRANGEBYSCORE', quota.deathsKey, '-inf', nowText, 'LIMIT', 0, PAGE)
    if #dead > 0 then
      redis.call('HDEL', quota.key, unpack(dead))
      redis.call('ZREM', quota.deathsKey, unpack(dead))
    end
  end
end
for _, key in ipairs(holdersKeys) do
  if isHeldIn[key] then
    removeEnded(key)
    redis.call('PEXPIRE', key, placeDuration)
    list(key, placeDuration)
  end
end
return table.concat(reply, ' ')
