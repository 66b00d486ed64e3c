-- Does what one call asks, in one step and in this order: frees and renews places, settles, decides
-- on the requests, and reads the standings (`Call` in ../shared/driver.ts).
-- include layout.part.lua
--
-- It reads, decides and then writes, so that a server that refuses a write, because it is full or a
-- replica, has changed nothing: Redis refuses only the first write of a script, which is the number
-- of a call that settles, or else the first counter or place. No key is used any more after it may
-- have become empty: while its slot moves to another server of a cluster, it would be looked for
-- there.
--
-- ARGV[1] has records of numbers, which arguments.ts writes: first CALL, then as many of the others
-- as it says, in this order; `at` is where the next one begins. The DEMANDs of a request follow its
-- REQUEST. A field that ends with `At` is a position: of a key in KEYS, of a name in ARGV, of a
-- quota among the QUOTAs, of a holder among the HOLDERs. It is 0 if there is none. What is asked of
-- a quota with windows has `quotaAt` and `row`, and what is asked of places has `holderAt` in place
-- of both.

-- time (negative for the server's), date (of the client's clock), periodLength, placeDuration,
-- firstWindowId, cap, number, callsKeyAt, quotaCount, holderCount, settlementCount, requestCount,
-- standingCount
local CALL = 'ddddddddddddd'

-- Of a quota with windows: keyAt, window, keep (how long a counter is kept), rowsAt, rowCount,
-- overflowRow (0 without a cap). The name of row 1 is the first one after `rowsAt`.
local QUOTA = 'dddddd'

-- Of a caller with places: keyAt, quotaKeyAt (the holders of its quota), callerAt, freedAt,
-- renewedAt, lastAt, isAsked (whether its places are counted). The names of the places to free
-- stand from `freedAt` on, up to `renewedAt`; those to renew from there on, with `lastAt`.
local HOLDER = 'ddddddd'

-- quotaAt, row, windowId, lessCount, lessHeld, settledPeriod, onceKeyAt
local SETTLEMENT = 'ddddddd'

-- size (how many demands it has), placeNameAt (the name of the places that it takes)
local REQUEST = 'dd'

-- quotaAt, row, holderAt, limit (infinite if it always has room), least, most, unit (the first
-- demand of the request that has the same), isEstimate, starts, ends, keptUntil. The three times
-- are 0 without a time zone.
local DEMAND = 'ddddddddddd'

-- quotaAt, row, holderAt, starts, ends, as those of a demand
local STANDING = 'ddddd'

-- Returns one text of integers with a space between them, which clients read several times as fast
-- as a list of integers: the period; for each settlement that is applied once, 1 if it was, else 0;
-- for each demand what was granted (-1 if it has no room), the id of its window, and its count; for
-- each standing its count, or -1 if its window is over. A count is four integers: what is counted;
-- what is held; how long the window stays open or, in a time zone, when it ends (of no meaning for
-- places); and whether it is of the overflow counter (1 or 0).

-- Each function costs each call a thousand instructions, used or not, so there are few.
local NUMBERS = ARGV[1]
local KEY_SLACK = 60000 -- how much longer than needed a key can stay, so that this is rarely set
local SHORTEST_MEMORY = 60000 -- how long a settlement that is applied once is remembered at least
local CALL_MEMORY = '86400000' -- how long the number of a process's latest call is remembered
local format, max, min, unpackNumbers = string.format, math.max, math.min, struct.unpack

local time, date, periodLength, placeDuration, nextWindowId, cap, callNumber, callsKeyAt,
  quotaCount, holderCount, settlementCount, requestCount, standingCount, at =
  unpackNumbers(CALL, NUMBERS)
local now = time < 0 and serverTime or time
local period = math.floor(now / periodLength)
-- Times are texts here, because a number costs a command twice as much.
local nowText, placesEnd = format('%d', now), format('%d', now + placeDuration)
-- How many counters are looked at together, to find dead ones: many with a cap, since there a
-- caller is counted on the overflow counter for as long as none is found.
local lookedAt = cap < math.huge and 100 or 5

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
for quotaAt = 1, quotaCount do
  local keyAt, window, keep, rowsAt, rowCount, overflowRow
  keyAt, window, keep, rowsAt, rowCount, overflowRow, at = unpackNumbers(QUOTA, NUMBERS, at)
  local key = KEYS[keyAt]
  local counters = call('HMGET', key, unpack(ARGV, rowsAt + 1, rowsAt + rowCount))
  for row = 1, rowCount do
    counters[row] = readCounter(counters[row], now, period, window)
  end
  local quota = { key = key, rowsAt = rowsAt, window = window, keep = keep, counters = counters }
  local overflow = counters[overflowRow]
  if overflow then
    overflow.isOverflow = true
    quota.overflow = overflow
    quota.free = cap - call('HLEN', key) + (overflow.state == NEW and 0 or 1)
    if quota.free <= 0 then
      local asked = {}
      for row = 1, rowCount do asked[ARGV[rowsAt + row]] = true end
      quota.dead = findDead(key, asked)
      quota.free = quota.free + #quota.dead
    end
  end
  quotas[quotaAt] = quota
end

-- Read the places of each holder, which are decided on as a counter whose window never ends. What
-- is written for its quota is collected in a command, too.
local holders, commandsOfQuotas = {}, {}
for holderAt = 1, holderCount do
  local keyAt, quotaKeyAt, callerAt, freedAt, renewedAt, lastAt, isAsked
  keyAt, quotaKeyAt, callerAt, freedAt, renewedAt, lastAt, isAsked, at =
    unpackNumbers(HOLDER, NUMBERS, at)
  local key, ofQuota = KEYS[keyAt], commandsOfQuotas[quotaKeyAt] or { 'ZADD', KEYS[quotaKeyAt] }
  commandsOfQuotas[quotaKeyAt] = ofQuota
  local kept, gone = { 'ZADD', key }, { 'ZREM', key, unpack(ARGV, freedAt, renewedAt - 1) }
  for nameAt = renewedAt, lastAt do prolong(kept, ARGV[nameAt]) end
  local count = isAsked == 1 and countPlaces(key, kept, gone, freedAt, renewedAt, lastAt) or 0
  local counter = {
    count = count, held = count, heldBefore = 0, ends = now + placeDuration, id = 0, state = READ
  }
  holders[holderAt] = {
    key = key, caller = ARGV[callerAt], counter = counter, kept = kept, gone = gone,
    ofQuota = ofQuota
  }
end

-- Some clients send a call again if its reply is lost with the connection. Its requests count again
-- then, but it settles once, because a call settles only if its number is higher than those of its
-- process before. The first command writes the number and returns the one before, and the rare
-- other one writes that again.
local callsKey, callName, isHigher = KEYS[callsKeyAt]
if callsKey then
  local numberText = format('%d', callNumber)
  local latest = call('SET', callsKey, numberText, 'PX', CALL_MEMORY, 'GET')
  isHigher = callNumber > (tonumber(latest) or 0)
  if not isHigher then call('SET', callsKey, latest, 'PX', CALL_MEMORY) end
  callName = callsKey .. ' ' .. numberText
end

-- Settle: only the window that has counted changes, and what is held of the settled period.
-- `remembered` says for how long to remember what is applied once.
local reply, remembered = { format('%d', period) }, {}
for _ = 1, settlementCount do
  local quotaAt, row, windowId, lessCount, lessHeld, settledPeriod, onceKeyAt
  quotaAt, row, windowId, lessCount, lessHeld, settledPeriod, onceKeyAt, at =
    unpackNumbers(SETTLEMENT, NUMBERS, at)
  local counter = quotas[quotaAt].counters[row]
  local isApplied = isHigher and counter.id == windowId
  if onceKeyAt > 0 then
    local key, isOpen = KEYS[onceKeyAt], counter.ends > (counter.isZoned and serverTime or now)
    local isFirstInCall, appliedBy = not remembered[key], call('GET', key)
    isApplied = isApplied and isOpen and isFirstInCall and not appliedBy
    local isFirst = isApplied or appliedBy == callName and isFirstInCall
    if isFirst then remembered[key] = max(SHORTEST_MEMORY, counter.deadFrom - now) end
    reply[#reply + 1] = isFirst and 1 or 0
  end
  if isApplied then
    counter.count = max(0, counter.count - lessCount)
    local heldField = settledPeriod == period and 'held' or
      settledPeriod == period - 1 and 'heldBefore'
    if heldField then counter[heldField] = max(0, counter[heldField] - lessHeld) end
    counter.state = max(counter.state, CHANGED)
  end
end

-- Returns the counter of a holder, or that of a caller: its own, or the overflow counter if it has
-- none and as many callers as the cap have one.
local function counterOf (quota, row, holderAt)
  if holderAt > 0 then return holders[holderAt].counter end
  local counter = quota.counters[row]
  if counter.state == NEW and quota.overflow and quota.free <= 0 then return quota.overflow end
  return counter
end

-- Whether the window is over for a demand. `starts` and `ends` are 0 without a time zone.
local function isOver (counter, starts, ends)
  return counter.ends <= (ends > 0 and starts or now)
end

-- Opens a window. Its counter is kept for `keep` or, in a time zone, until the time `keptUntil` of
-- the server's clock or of the client's, whichever is behind. If that is over, for `keep`, too.
local function open (quota, counter, ends, keptUntil)
  if counter.state == NEW and quota.overflow and not counter.isOverflow then
    quota.free = quota.free - 1
  end
  counter.id, nextWindowId = nextWindowId, nextWindowId + 1
  counter.isZoned, counter.state = ends > 0, OPENED
  counter.ends, counter.deadFrom = now + quota.window, now + quota.keep
  if ends > 0 then
    counter.ends = ends
    local left = keptUntil - min(serverTime, date)
    if left > 0 then counter.deadFrom = now + left end
  end
  counter.count, counter.held, counter.heldBefore = 0, 0, 0
end

-- Returns the four integers of a count.
local function countOf (counter)
  return counter.count, heldOf(counter), counter.isZoned and counter.ends or counter.ends - now,
    counter.isOverflow and 1 or 0
end

-- Decide on the requests: first whether all demands have room, then what is granted.
local leastOfUnit, demands = {}, {}
for _ = 1, requestCount do
  local size, placeNameAt
  size, placeNameAt, at = unpackNumbers(REQUEST, NUMBERS, at)
  local isAdmitted = true
  for index = 1, size do
    local quotaAt, row, holderAt, limit, least, most, unit, isEstimate, starts, ends, keptUntil
    quotaAt, row, holderAt, limit, least, most, unit, isEstimate, starts, ends, keptUntil, at =
      unpackNumbers(DEMAND, NUMBERS, at)
    local quota = quotas[quotaAt]
    local counter = counterOf(quota, row, holderAt)
    if isOver(counter, starts, ends) then open(quota, counter, ends, keptUntil) end
    local room = limit - counter.count
    local hasRoom = room >= least and room >= 1
    if not hasRoom then isAdmitted = false end
    -- What the demands of one unit would be granted alone bounds each of them. A unit is the
    -- position of its first demand.
    local alone = room < most and room or most
    if unit == index or alone < leastOfUnit[unit] then leastOfUnit[unit] = alone end
    demands[index] = { counter, hasRoom, least, unit, isEstimate, holders[holderAt] }
  end
  for index = 1, size do
    local counter, hasRoom, least, unit, isEstimate, holder = unpack(demands[index])
    local granted = hasRoom and 0 or -1
    if isAdmitted then
      granted = leastOfUnit[unit] > least and leastOfUnit[unit] or least
      counter.count = min(counter.count + granted, UNLIMITED)
      if isEstimate == 1 then counter.held = min(counter.held + granted, UNLIMITED) end
      if counter.state == READ then counter.state = CHANGED end
      if holder then prolong(holder.kept, ARGV[placeNameAt]) end
    end
    reply[#reply + 1] = format('%d %d %d %d %d %d', granted, counter.id, countOf(counter))
  end
end

-- Read the standings.
for _ = 1, standingCount do
  local quotaAt, row, holderAt, starts, ends
  quotaAt, row, holderAt, starts, ends, at = unpackNumbers(STANDING, NUMBERS, at)
  local counter = counterOf(quotas[quotaAt], row, holderAt)
  if isOver(counter, starts, ends) then reply[#reply + 1] = -1
  else reply[#reply + 1] = format('%d %d %d %d', countOf(counter)) end
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
    if call('PTTL', key) < keepFor then call('PEXPIRE', key, keepFor + KEY_SLACK) end
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
for _, command in pairs(commandsOfQuotas) do
  if #command > 2 then
    local key = command[2]
    call(unpack(command))
    call('PEXPIRE', key, placeDuration)
    local ended = min(call('ZCOUNT', key, '-inf', nowText), removable)
    removable = removable - ended
    if ended > 0 then call('ZREMRANGEBYRANK', key, 0, ended - 1) end
  end
end
return table.concat(reply, ' ')
