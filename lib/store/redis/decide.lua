-- Does what one call asks of a shard, in one step: frees and renews places, settles, and decides on
-- the requests in their order.
-- include layout.part.lua
-- KEYS: the shard; the counters of each quota with windows; the callers of each quota of concurrent
-- requests; and the places of each caller who takes, frees or renews some, a holder.
-- ARGV[1] has numbers of eight bytes, read below in the order in which arguments.ts writes them.
-- Then come names: of the callers of each quota with windows, and of places freed, renewed, taken.
-- Returns numbers with spaces between them: the period, and for each demand of each request what
-- was granted (-1 if it has no room), the count, what is held, how long the window stays open or,
-- in a time zone, when it ends (0 for a place), its id, and whether it is of overflow (1 or 0).
local NUMBERS = ARGV[1]
local format, pack, unpackNumbers = string.format, struct.pack, struct.unpack

-- The shard must last for `keep`. There are `demandCount` demands in all requests. `at` is the
-- position of the next number in NUMBERS, and `nameAt` (below) that of the latest name in ARGV.
local time, cap, keep, windowedCount, concurrentCount, holderCount, freedCount, renewedCount,
  settlementCount, requestCount, demandCount, at = unpackNumbers('ddddddddddd', NUMBERS)
local quotaCount = windowedCount + concurrentCount
local found = readShard(unpack(KEYS, 2, 1 + quotaCount))
local now, offset, latestId, shardExpires = startClock(found[1], time)
local period = math.floor(now / PERIOD)

-- The first write, since a server whose memory is full refuses this one and no later one. Ids of
-- windows are set aside for all demands.
local mustLastLonger = now + keep > shardExpires
if mustLastLonger then shardExpires = now + keep + MINUTE end
redis.call('HSET', SHARD, LAYOUT, pack('dddd', now, offset, latestId + demandCount, shardExpires))
if mustLastLonger then redis.call('PEXPIRE', SHARD, shardExpires - now) end

-- The window is 0 if no request reaches the quota. The sweeps of all quotas together look at about
-- a page of counters.
local quotas, leftToSweep, nameAt = {}, PAGE, 1
for position = 1, windowedCount do
  local key, record = KEYS[1 + position], found[1 + position]
  local window, hasZone, callerCount
  window, hasZone, callerCount, at = unpackNumbers('ddd', NUMBERS, at)
  -- Counters whose quota has no record have times of a clock that was lost.
  if not record then redis.call('UNLINK', key) end
  local sweptAt, sweeps, cursor, retention, isZoned, expires =
    unpackNumbers(QUOTA, record or pack(QUOTA, now, 0, -1, 0, 0, NEVER))
  local isChanged = false
  if window > 0 then
    isChanged = retention ~= window + MINUTE or isZoned ~= hasZone
    retention, isZoned = window + MINUTE, hasZone
    if cursor < 0 and now - sweptAt >= MINUTE then
      sweptAt, sweeps, cursor, isChanged = now, sweeps + 1, 0, true
    end
    if cursor >= 0 and leftToSweep > 0 then
      local page = redis.call('HSCAN', key, cursor, 'COUNT', leftToSweep)
      for index = 1, #page[2], 2 do
        local caller, text = page[2][index], page[2][index + 1]
        if isDead(text, sweptAt, retention) then redis.call('HDEL', key, caller) end
      end
      cursor, isChanged = page[1] == '0' and -1 or tonumber(page[1]), true
      leftToSweep = leftToSweep - #page[2] / 2
    end
  end
  -- A caller without a counter has false in its place, and needs the number of those with one.
  local counters = redis.call('HMGET', key, unpack(ARGV, nameAt + 1, nameAt + callerCount))
  local tracked
  for row, text in ipairs(counters) do
    counters[row] = text and readCounter(text, period)
    if not text then tracked = tracked or redis.call('HLEN', key) end
  end
  -- Without counters, the key does not exist, and has lost its expiry.
  if tracked == 0 then expires = NEVER end
  local mustLastLonger = window > 0 and now + retention > expires
  if mustLastLonger then expires = now + retention + MINUTE end
  if isChanged or mustLastLonger then
    redis.call('HSET', SHARD, key,
      pack(QUOTA, sweptAt, sweeps, cursor, retention, isZoned, expires))
  end
  quotas[position] = {
    key = key, window = window, counters = counters, tracked = tracked, overflow = false,
    namesAt = nameAt, expiresIn = mustLastLonger and expires - now
  }
  nameAt = nameAt + callerCount
end

local function overflowOf (quota)
  quota.overflow = quota.overflow or
    readCounter(redis.call('HGET', SHARD, quota.key .. ' overflow'), period)
  return quota.overflow
end

-- Counts what has not ended in a sorted set, and removes what has, a page of it in a script. Times
-- are texts here, because a number costs a command twice as much.
local removable = PAGE
local canTakePlaces = concurrentCount > 0 and requestCount + renewedCount > 0
local nowText = canTakePlaces and format('%d', now)
local endText = canTakePlaces and format('%d', now + tonumber(PLACE_DURATION))
local function countNotEnded (key)
  local count = redis.call('ZCARD', key)
  local ended = count > 0 and redis.call('ZCOUNT', key, '-inf', nowText) or 0
  local removed = math.min(ended, removable)
  if removed > 0 then redis.call('ZREMRANGEBYRANK', key, 0, removed - 1) end
  removable = removable - removed
  return count - ended
end

-- The place lasts from now on, whether the holder has it or not.
local function takeOrRenew (holder, place)
  redis.call('ZADD', holder.key, endText, place)
  redis.call('PEXPIRE', holder.key, PLACE_DURATION)
  redis.call('ZADD', holder.callersKey, endText, holder.caller)
end

-- Free and renew places. Those of a holder have the form of a counter, and a key that consists of
-- the key of the quota's callers, a space, and the caller.
local holders = {}
for position = 1, holderCount do
  local key = KEYS[1 + quotaCount + position]
  local space = string.find(key, ' ', #SHARD + 1, true)
  holders[position] = {
    key = key, callersKey = string.sub(key, 1, space - 1), caller = string.sub(key, space + 1),
    count = false, held = 0, heldBefore = 0, ends = now, id = 0
  }
end
for index = 1, freedCount + renewedCount do
  local position
  position, at = unpackNumbers('d', NUMBERS, at)
  nameAt = nameAt + 1
  local holder, place = holders[position], ARGV[nameAt]
  if index > freedCount then
    takeOrRenew(holder, place)
  elseif redis.call('ZREM', holder.key, place) == 1 and redis.call('EXISTS', holder.key) == 0 then
    redis.call('ZREM', holder.callersKey, holder.caller)
  end
end

-- Settle: only the window that has counted changes, and what is held of the `settled` period.
for _ = 1, settlementCount do
  local position, row, isOverflow, id, lessCount, lessHeld, settled, nextAt =
    unpackNumbers('ddddddd', NUMBERS, at)
  at = nextAt
  local quota = quotas[position]
  local counter = isOverflow == 1 and overflowOf(quota) or quota.counters[row]
  if counter and counter.id == id then
    counter.count = math.max(0, counter.count - lessCount)
    local heldField = settled == period and 'held' or settled == period - 1 and 'heldBefore'
    if heldField then counter[heldField] = math.max(0, counter[heldField] - lessHeld) end
    counter.isChanged = true
  end
end

-- Returns the counter that a demand reaches: the caller's own, or the overflow counter at the cap.
-- Opens a window if the last one is over. `starts` and `ends` are 0 without a time zone.
local function reach (quota, row, starts, ends)
  local counter = quota.counters[row]
  if not counter and quota.tracked < cap then
    counter = readCounter(nil, period)
    quota.counters[row], quota.tracked = counter, quota.tracked + 1
  end
  counter = counter or overflowOf(quota)
  if counter.ends <= (ends > 0 and starts or now) then
    latestId = latestId + 1
    counter.id, counter.ends = latestId, ends > 0 and ends or now + quota.window
    counter.count, counter.held, counter.heldBefore = 0, 0, 0
  end
  counter.lastSeen, counter.isChanged = now, true
  return counter
end

-- Decide on the requests. The quota's position is 0 for a place, whose row is that of its holder.
local reply, demands = { period }, {}
for _ = 1, requestCount do
  local size, hasPlaces
  size, hasPlaces, at = unpackNumbers('dd', NUMBERS, at)
  nameAt = nameAt + hasPlaces
  local isAdmitted = true
  for index = 1, size do
    local position, row, limit, least, most, isEstimate, starts, ends, nextAt =
      unpackNumbers('dddddddd', NUMBERS, at)
    at = nextAt
    local quota = quotas[position]
    local counter = quota and reach(quota, row, starts, ends) or holders[row]
    if not quota and not counter.count then
      counter.count = countNotEnded(counter.key)
      counter.held = counter.count
    end
    local hasRoom = limit == UNLIMITED or counter.count + math.max(least, 1) <= limit
    isAdmitted = isAdmitted and hasRoom
    demands[index] = {
      quota = quota, counter = counter, hasRoom = hasRoom, isZoned = ends > 0,
      limit = limit, most = most, isEstimate = isEstimate == 1
    }
  end
  for index = 1, size do
    local demand = demands[index]
    local quota, counter, granted = demand.quota, demand.counter, 0
    if isAdmitted then
      granted = demand.limit == UNLIMITED and demand.most
        or math.min(demand.most, demand.limit - counter.count)
      counter.count = math.min(counter.count + granted, UNLIMITED)
      if demand.isEstimate then counter.held = counter.held + granted end
      if not quota then takeOrRenew(counter, ARGV[nameAt]) end
    end
    local leftOrEnd = demand.isZoned and counter.ends or counter.ends - now
    local isOverflow = quota and counter == quota.overflow
    reply[#reply + 1] = format('%d %d %d %d %d %d', demand.hasRoom and granted or -1,
      counter.count, heldOf(counter), leftOrEnd, counter.id, isOverflow and 1 or 0)
  end
end

-- Write what has changed.
local function recordOf (counter)
  return pack('ddddddd', counter.lastSeen, counter.count, counter.held, counter.heldBefore, period,
    counter.ends, counter.id)
end
for position = windowedCount + 1, quotaCount do
  if not found[1 + position] then redis.call('HSET', SHARD, KEYS[1 + position], '') end
  if canTakePlaces then
    countNotEnded(KEYS[1 + position])
    redis.call('PEXPIRE', KEYS[1 + position], PLACE_DURATION)
  end
end
for _, quota in ipairs(quotas) do
  local command = { 'HSET', quota.key }
  for row, counter in ipairs(quota.counters) do
    if counter and counter.isChanged then
      local last = #command
      command[last + 1], command[last + 2] = ARGV[quota.namesAt + row], recordOf(counter)
    end
  end
  if #command > 2 then redis.call(unpack(command)) end
  if quota.overflow then
    redis.call('HSET', SHARD, quota.key .. ' overflow', recordOf(quota.overflow))
  end
  if quota.expiresIn then redis.call('PEXPIRE', quota.key, quota.expiresIn) end
end
return table.concat(reply, ' ')
