-- Does all that one call asks of a shard, atomically: reads the rows, decides, and writes the rows
-- that changed.
-- include layout.part.lua
-- include sweep.part.lua
-- include places.part.lua
--
-- ARGV[1] holds numbers of eight bytes, and the other arguments are names; both are read below in
-- the order in which they were written (arguments.ts). In this form, a number costs half of what it
-- does in JSON or as an argument of its own.
--
-- Returns the number of the latest call of the process that was known, or 0 if it had no lease.
-- Then for each request ASK_AGAIN, or for each of its demands six integers: what was granted, or
-- NO_ROOM; the count; what is held; how long the window stays open or, if it has an end, when it
-- ends (0 for a place); the window's id; and whether the overflow counter was used (1 or 0).
local ASK_AGAIN <const> = -2
local NO_ROOM <const> = -1

-- Read the arguments.

local NUMBERS <const> = ARGV[1]
local names = ARGV
local name = 2
local at

-- `time` is that of the store's own clock; negative for the server's. `isExpected` is 1 if this
-- process has counted here within a window, so that there should be something.
local time, cap, isExpected, quotaCount, holdingCount, settlementCount, groupCount
time, cap, isExpected, quotaCount, holdingCount, settlementCount, groupCount, at =
  struct.unpack('ddddddd', NUMBERS)

-- The process is '' if the call is not about places.
local lease = nil
if names[name] ~= '' then
  lease = { process = names[name], holdings = {} }
  lease.number, lease.generation, lease.isComplete, at = struct.unpack('ddd', NUMBERS, at)
end
name = name + 1

-- The fields that are read: the clock, the quotas, and then rows.
local fields = { CLOCK_FIELD }
local size = 1

-- The window is 0 if no request reaches the quota.
local quotas = {}
for position = 1, quotaCount do
  local window
  window, at = struct.unpack('d', NUMBERS, at)
  quotas[position] = { name = names[name], window = window }
  size = size + 1
  fields[size] = 'quota:' .. names[name]
  name = name + 1
end

for position = 1, holdingCount do
  local held
  held, at = struct.unpack('d', NUMBERS, at)
  lease.holdings[position] = { row = names[name], held = held }
  name = name + 1
end

-- A settlement's field is a row, or that of a quota for its overflow counter.
local settlements = {}
for position = 1, settlementCount do
  local windowId, lessCount, lessHeld
  windowId, lessCount, lessHeld, at = struct.unpack('ddd', NUMBERS, at)
  settlements[position] = {
    field = names[name], windowId = windowId, lessCount = lessCount, lessHeld = lessHeld
  }
  size = size + 1
  fields[size] = names[name]
  name = name + 1
end

-- Requests that follow each other and differ in their callers only are a group, whose demands are
-- described once. The quota is 0 for a place. `ends` is 0 if the window has no end. The last three
-- fields are about the request that is being decided on.
local groups = {}
local firstRow = name
for index = 1, groupCount do
  local requestCount, demandCount
  requestCount, demandCount, at = struct.unpack('dd', NUMBERS, at)
  local demands = {}
  for position = 1, demandCount do
    local quota, limit, least, most, isEstimate, ends
    quota, limit, least, most, isEstimate, ends, at = struct.unpack('dddddd', NUMBERS, at)
    demands[position] = {
      quota = quota > 0 and quotas[quota],
      limit = limit,
      -- There is room where no more than this is counted.
      room = limit == UNLIMITED and UNLIMITED or limit - math.max(least, 1),
      most = most,
      isEstimate = isEstimate == 1,
      ends = ends > 0 and ends,
      counter = false,
      isOverflow = false,
      hasRoom = false
    }
  end
  groups[index] = { demands = demands, requestCount = requestCount }
  for _ = 1, requestCount do
    for position = 1, demandCount do
      if demands[position].quota then
        size = size + 1
        fields[size] = names[name]
      end
      name = name + 1
    end
  end
end

-- Read the clock, the quotas, the callers' own counters and the places.

if lease then fields[size + 1] = 'cleaning' end
local found = readWindows(fields)
local isNew = not found
if isNew then
  -- There is nothing to give back to.
  if groupCount == 0 and not lease then return { 0 } end
  if isExpected == 1 then assertNotEvicted() end
  -- Places are useless without the clock. Only a key that exists is removed, because after a first
  -- write the server would no longer refuse the others when its memory is full.
  if redis.call('EXISTS', PLACES) == 1 then redis.call('UNLINK', PLACES) end
  found = {}
end

local clock = readClock(found[1])
local now = startClock(clock, time)

for position, quota in ipairs(quotas) do
  local text = found[1 + position]
  if text then
    readQuota(quota, text)
  elseif quota.window > 0 then
    createQuota(quota, now)
  end
end

local places = nil
if lease then places = openPlaces(lease, found[size + 1], now) end

-- From here on, nothing may fail: what a script has written stays written.

-- Sweep the quotas that requests reach, if that is due. Then a pass over all rows of the shard
-- removes the dead ones, a page with each script.

local isChecked = true
local retention = lease and LEASE or 0
for _, quota in ipairs(quotas) do
  local window = quota.window
  if window > 0 then
    local isDue = now - quota.sweptAt >= SWEEP_INTERVAL
    if isDue then
      quota.sweeps = quota.sweeps + 1
      quota.sweptAt = now
      -- A pass that is already under way has looked at rows before this sweep.
      quota.checkedAfter = clock.passes + (clock.cursor == NO_PASS and 1 or 2)
    end
    if isDue or quota.retention ~= window + RETENTION_AFTER_WINDOW then
      quota.retention = window + RETENTION_AFTER_WINDOW
      quota.expires = clock.serverTime + quota.retention + SWEEP_INTERVAL
      quota.isChanged = true
    end
    if clock.passes < quota.checkedAfter then isChecked = false end
    if quota.retention > retention then retention = quota.retention end
  end
end
if not isChecked and checkPage(clock, quotas) then found = readWindows(fields) end

-- The callers' own counters, by row. Several requests can share one. What is not as long as a
-- counter is a quota, which a settlement names for its overflow counter.
local counters = {}
for position = 2 + quotaCount, size do
  local text = found[position]
  if text and #text == COUNTER_LENGTH and not counters[fields[position]] then
    counters[fields[position]] = readCounter(text)
  end
end

-- What this process holds comes first.

if places then places.state() end

-- Settlements: only the window that counted it gives something back. What is added is a request
-- with the limit UNLIMITED. A quota without a retention does not exist.

for _, settlement in ipairs(settlements) do
  local counter = counters[settlement.field]
  for _, quota in ipairs(quotas) do
    if settlement.field == 'quota:' .. quota.name and quota.retention then
      counter = overflowOf(quota)
      quota.isChanged = true
    end
  end
  if counter and counter.id == settlement.windowId then
    counter.count = math.max(0, counter.count - settlement.lessCount)
    counter.held = math.min(math.max(0, counter.held - settlement.lessHeld), counter.count)
    counter.isChanged = true
  end
end

-- Requests, in their order.

-- Whether a request depends on what a pass has still to look at: other callers' rows, if a new
-- caller meets the cap; what other processes hold, if there is no room for a place.
local function isUncertain (demands, first)
  for position, demand in ipairs(demands) do
    local row = names[first + position]
    local quota = demand.quota
    if not quota then
      if places.byRow[row].total > demand.room and places.isCleaningDue() then return true end
    -- Each demand of the request can be of a new caller.
    elseif not counters[row] and quota.callers + #demands > cap
      and clock.passes < quota.checkedAfter then
      return true
    end
  end
  return false
end

-- Finds the counter that the demand reaches. Opens a window if the last one is over.
local function reach (demand, row)
  local quota = demand.quota
  local counter = counters[row]
  demand.isOverflow = false
  if not counter then
    quota.isChanged = true
    if quota.callers < cap then
      counter = newCounter()
      counters[row] = counter
      quota.callers = quota.callers + 1
    else
      counter = overflowOf(quota)
      demand.isOverflow = true
    end
  end
  local ends = demand.ends
  if ends and ends > counter.ends or not ends and now >= counter.ends then
    clock.lastId = clock.lastId + 1
    counter.id = clock.lastId
    counter.ends = ends or now + quota.window
    counter.count = 0
    counter.held = 0
    if ends then quota.isZoned = 1 end
  end
  counter.lastSeen = now
  counter.isChanged = true
  demand.counter = counter
  return counter.count
end

-- What a demand with room is granted. Another demand of its request can have used the rest of the
-- same overflow counter.
local function grantOf (demand)
  if demand.limit == UNLIMITED or not demand.quota then return demand.most end
  local room = demand.limit - demand.counter.count
  if room >= demand.most then return demand.most end
  return room > 0 and room or 0
end

-- Counts what was granted. A count stops at the greatest one.
local function add (counter, granted, isHeld)
  counter.count = counter.count + granted
  if counter.count > UNLIMITED then counter.count = UNLIMITED end
  if not isHeld then return end
  counter.held = counter.held + granted
  if counter.held > UNLIMITED then counter.held = UNLIMITED end
end

local reply = { places and places.latestNumber or 0 }
local replied = 1

local function decide (demands, first)
  -- Room is what there was before the request, of which two callers can use the overflow counter.
  local isAdmitted = true
  for position = 1, #demands do
    local demand = demands[position]
    local row = names[first + position]
    local count = demand.quota and reach(demand, row) or places.byRow[row].total
    demand.hasRoom = count <= demand.room
    isAdmitted = isAdmitted and demand.hasRoom
  end
  for position = 1, #demands do
    local demand = demands[position]
    local granted = isAdmitted and grantOf(demand) or 0
    reply[replied + 1] = demand.hasRoom and shown(granted) or NO_ROOM
    if demand.quota then
      local counter = demand.counter
      add(counter, granted, demand.isEstimate)
      reply[replied + 2] = shown(counter.count)
      reply[replied + 3] = shown(counter.held)
      reply[replied + 4] = demand.ends and counter.ends or counter.ends - now
      reply[replied + 5] = counter.id
      reply[replied + 6] = demand.isOverflow and 1 or 0
    else
      local total = places.take(names[first + position], granted)
      reply[replied + 2] = total
      reply[replied + 3] = total
      reply[replied + 4] = 0
      reply[replied + 5] = 0
      reply[replied + 6] = 0
    end
    replied = replied + 6
  end
end

local nextRow = firstRow - 1
for _, group in ipairs(groups) do
  for _ = 1, group.requestCount do
    if (lease or not isChecked) and isUncertain(group.demands, nextRow) then
      replied = replied + 1
      reply[replied] = ASK_AGAIN
    else
      decide(group.demands, nextRow)
    end
    nextRow = nextRow + #group.demands
  end
end

-- Write what has changed.

-- A shard expires when a request would find every row dead.
local isExpiring = now + retention > clock.expires
if isExpiring then clock.expires = now + retention + SWEEP_INTERVAL end

local written = { CLOCK_FIELD, writeClock(clock) }
size = 2
for row, counter in pairs(counters) do
  if counter.isChanged then
    written[size + 1] = row
    written[size + 2] = writeCounter(counter)
    size = size + 2
  end
end
for _, quota in ipairs(quotas) do
  if quota.isChanged then
    written[size + 1] = 'quota:' .. quota.name
    written[size + 2] = writeQuota(quota)
    size = size + 2
  end
end
if places then
  written[size + 1] = 'cleaning'
  written[size + 2] = places.cleaningText()
end
redis.call('HSET', WINDOWS, unpack(written))
if isExpiring then redis.call('PEXPIRE', WINDOWS, retention + SWEEP_INTERVAL) end
if places then places.write() end
return reply
