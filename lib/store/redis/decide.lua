-- Does what one call asks, in one step and in this order: frees and renews places, settles, decides
-- on the requests, and reads the standings (`Call` in ../shared/driver.ts).
-- include layout.part.lua
--
-- It reads, decides and then writes, so that a server that refuses the first write, because it is
-- full or a replica, has changed nothing. No key is used any more after it may have become empty:
-- while its slot moves to another server of a cluster, it would be looked for there.
--
-- ARGV[1] has numbers of eight bytes, in the order in which they are read below. The other
-- arguments and KEYS are read in this order, in which arguments.ts writes them:
--   KEYS  for each quota with windows its counters; for each quota of concurrent requests its
--         holders, the callers with places; for each holder its places; for each settlement that is
--         applied once, its name; if there are settlements, the calls of the process
--   ARGV  for each quota with windows its rows; for each holder the caller, and the places that are
--         freed and renewed; for each request that takes places, their name
-- Returns numbers: the period; for each settlement that is applied once, 1 if it was, else 0; for
-- each demand what was granted (-1 if it has no room), its count, and the id of its window; for
-- each standing its count, or -1 if its window is over. A count is four numbers: what is counted;
-- what is held; how long the window stays open or, in a time zone, when it ends (of no meaning for
-- places); and whether it is of the overflow counter (1 or 0).
--
-- Each function costs each call a thousand instructions, used or not, so there are few.
local NUMBERS = ARGV[1]
local MINUTE = 60000 -- how much longer than needed a key can stay, so that this is rarely set
local DAY = 86400000 -- how long the number of a process's latest call with settlements is kept
local EXACT = 2 ^ 52 -- from here on, a client can round an integer, so it is returned as a text
local format, max, min, unpackNumbers = string.format, math.max, math.min, struct.unpack

local time, periodLength, placeDuration, nextWindowId, callNumber, cap, quotaCount,
  concurrentCount, holderCount, settlementCount, requestCount, standingCount, at =
  unpackNumbers('dddddddddddd', NUMBERS)
local now = time < 0 and serverTime or time
local period = math.floor(now / periodLength)
-- Times are texts here, because a number costs a command twice as much.
local nowText, placesEnd = format('%d', now), format('%d', now + placeDuration)
-- How many counters are looked at together, to find dead ones: many with a cap, since there a
-- caller is counted on the overflow counter for as long as none is found.
local lookedAt = cap < math.huge and 100 or 5
local keyAt, nameAt = 0, 1 -- where what was read last stands in KEYS and ARGV

-- include places.part.lua

-- Returns the dead ones of a few counters that are drawn at random: all, if there are no more. Not
-- those of `asked` callers, which the call can open again.
local function findDead (key, asked)
  local drawn, dead = call('HRANDFIELD', key, lookedAt, 'WITHVALUES'), {}
  for index = 1, #drawn, 2 do
    local row = drawn[index]
    local isDead = unpackNumbers(DEAD_FROM, drawn[index + 1]) <= now
    if isDead and not asked[row] then dead[#dead + 1] = row end
  end
  return dead
end

-- Read the counters of each quota. With a cap, the row of the overflow counter is among them
-- (otherwise 0), and `free` is how many callers can get a counter, once the `dead` are removed.
local quotas = {}
for position = 1, quotaCount do
  local window, keep, rowCount, overflowRow
  window, keep, rowCount, overflowRow, at = unpackNumbers('dddd', NUMBERS, at)
  local key = KEYS[position]
  local counters = call('HMGET', key, unpack(ARGV, nameAt + 1, nameAt + rowCount))
  for row = 1, rowCount do
    counters[row] = readCounter(counters[row], now, period, window)
  end
  local quota = { key = key, rowsAt = nameAt, window = window, keep = keep, counters = counters }
  local overflow = counters[overflowRow]
  if overflow then
    quota.overflow = overflow
    quota.free = cap - call('HLEN', key) + (overflow.state == NEW and 0 or 1)
    if quota.free <= 0 then
      local asked = {}
      for row = 1, rowCount do asked[ARGV[nameAt + row]] = true end
      quota.dead = findDead(key, asked)
      quota.free = quota.free + #quota.dead
    end
  end
  quotas[position] = quota
  nameAt = nameAt + rowCount
end

keyAt = quotaCount

-- Read the places: of each quota of concurrent requests its holders, and of each holder its places.
local concurrent, holders, placeCounters = {}, {}, {}
for position = 1, concurrentCount do
  keyAt = keyAt + 1
  concurrent[position] = { 'ZADD', KEYS[keyAt] }
end
for position = 1, holderCount do
  local concurrentAt, freedCount, renewedCount, isAsked
  concurrentAt, freedCount, renewedCount, isAsked, at = unpackNumbers('dddd', NUMBERS, at)
  keyAt = keyAt + 1
  local key, caller = KEYS[keyAt], ARGV[nameAt + 1]
  local freedAt = nameAt + 2
  local renewedAt = freedAt + freedCount
  nameAt = renewedAt + renewedCount - 1
  local kept, gone = { 'ZADD', key }, { 'ZREM', key, unpack(ARGV, freedAt, renewedAt - 1) }
  for name = renewedAt, nameAt do prolong(kept, ARGV[name]) end
  local count = isAsked == 1 and countPlaces(key, kept, gone, freedAt, renewedAt, nameAt) or 0
  holders[position] = {
    key = key, caller = caller, kept = kept, gone = gone, ofQuota = concurrent[concurrentAt]
  }
  placeCounters[position] = {
    count = count, held = count, heldBefore = 0, ends = now + placeDuration, id = 0, state = READ
  }
end
-- The quota of a place has the position 0, and the holder as its row.
quotas[0] = { counters = placeCounters }

-- A client sends a call again if its reply is lost with the connection. What it settles is applied
-- once, because it is skipped unless the call has a higher number than those before of its process.
local callsKey, numberText, callName, isHigher = KEYS[#KEYS], format('%d', callNumber)
if settlementCount > 0 then
  isHigher = callNumber > (tonumber(call('GET', callsKey)) or 0)
  callName = callsKey .. ' ' .. numberText
end

-- Settle: only the window that has counted changes, and what is held of the `settled` period.
local reply, remembered = { period }, {}
for _ = 1, settlementCount do
  local position, row, windowId, lessCount, lessHeld, settled, isOnce
  position, row, windowId, lessCount, lessHeld, settled, isOnce, at =
    unpackNumbers('ddddddd', NUMBERS, at)
  local quota = quotas[position]
  local counter = quota.counters[row]
  local isApplied = isHigher and counter.id == windowId
  if isOnce == 1 then
    keyAt = keyAt + 1
    local key, isOpen = KEYS[keyAt], counter.ends > (counter.isZoned and serverTime or now)
    local appliedBy = remembered[key] or call('GET', key)
    isApplied = isApplied and isOpen and not appliedBy
    local isFirst = isApplied or appliedBy == callName
    if isFirst then remembered[key] = max(MINUTE, counter.deadFrom - now) end
    reply[#reply + 1] = isFirst and 1 or 0
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

-- Opens a window. Its counter is kept for `keep` or, in a time zone, until the time `keptUntil` of
-- the server's clock. If that is over, because the client's clock is behind, for `keep`, too.
local function open (quota, counter, ends, keptUntil)
  if counter.state == NEW and quota.overflow and counter ~= quota.overflow then
    quota.free = quota.free - 1
  end
  counter.id, nextWindowId = nextWindowId, nextWindowId + 1
  counter.isZoned, counter.state = ends > 0, OPENED
  counter.ends, counter.deadFrom = now + quota.window, now + quota.keep
  if ends > 0 then
    counter.ends = ends
    if keptUntil > serverTime then counter.deadFrom = now + keptUntil - serverTime end
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
    local position, row, limit, least, most, unit, isEstimate, starts, ends, keptUntil
    position, row, limit, least, most, unit, isEstimate, starts, ends, keptUntil, at =
      unpackNumbers('dddddddddd', NUMBERS, at)
    local quota = quotas[position]
    local counter = counterOf(quota, row)
    if isOver(counter, starts, ends) then open(quota, counter, ends, keptUntil) end
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
    local position, row, limit, least, most, unit, isEstimate, starts, ends, keptUntil
    position, row, limit, least, most, unit, isEstimate, starts, ends, keptUntil, at =
      unpackNumbers('dddddddddd', NUMBERS, at)
    local quota = quotas[position]
    local counter = counterOf(quota, row)
    local room, granted = limit - counter.count, 0
    if isAdmitted then
      granted = leastOfUnit[unit] > least and leastOfUnit[unit] or least
      counter.count = min(counter.count + granted, UNLIMITED)
      if isEstimate == 1 then counter.held = min(counter.held + granted, UNLIMITED) end
      if counter.state == READ then counter.state = CHANGED end
      if position == 0 then prolong(holders[row].kept, ARGV[nameAt]) end
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

-- Write the counters, and see that their keys expire.
for _, quota in ipairs(quotas) do
  local key, rowsAt, keepFor = quota.key, quota.rowsAt, 0
  local command, last = { 'HSET', key }, 2
  for row, counter in ipairs(quota.counters) do
    if counter.state >= CHANGED then
      command[last + 1] = ARGV[rowsAt + row]
      command[last + 2] = struct.pack(COUNTER, counter.deadFrom, counter.count, counter.held,
        counter.heldBefore, period, counter.ends, counter.id, counter.isZoned and 1 or 0)
      last = last + 2
      if counter.state == OPENED then keepFor = max(keepFor, counter.deadFrom - now) end
    end
  end
  if last > 2 then call(unpack(command)) end
  if keepFor > 0 then
    if call('PTTL', key) < keepFor then call('PEXPIRE', key, keepFor + MINUTE) end
    -- Removes dead counters as Redis removes expired keys: goes on while most of those drawn are
    -- dead.
    local dead = quota.dead or {}
    for _ = 1, PAGE / lookedAt do
      if #dead > 0 then call('HDEL', key, unpack(dead)) end
      dead = findDead(key, {})
      if #dead < lookedAt / 2 then break end
    end
    if #dead > 0 then call('HDEL', key, unpack(dead)) end
  end
end
if isHigher then call('SET', callsKey, numberText, 'PX', DAY) end
for key, keepFor in pairs(remembered) do call('SET', key, callName, 'PX', keepFor) end

-- Write the places, then their holders, who stay there until the latest place would have ended.
for _, holder in ipairs(holders) do
  if #holder.kept > 2 then
    call(unpack(holder.kept))
    call('PEXPIRE', holder.key, placeDuration)
    prolong(holder.ofQuota, holder.caller)
  end
  if #holder.gone > 2 then call(unpack(holder.gone)) end
end
for _, kept in ipairs(concurrent) do
  if #kept > 2 then
    local key = kept[2]
    call(unpack(kept))
    call('PEXPIRE', key, placeDuration)
    local ended = min(call('ZCOUNT', key, '-inf', nowText), removable)
    removable = removable - ended
    if ended > 0 then call('ZREMRANGEBYRANK', key, 0, ended - 1) end
  end
end
return reply
