-- Decides on requests of callers of one shard, in order and atomically (docs/scaling.md, "Why the shared store is exact").
-- include layout.part.lua
--
-- KEYS: the shard's register; the hash of each quota. ARGV: the settings, which arguments.ts describes; the callers of each request.
-- Returns three integers for each demand: the count; the milliseconds until the window ends, or its end; and four times the nonce of the
-- window, plus 1 if the demand has room, plus 2 for the overflow counter. The first is ASK_AGAIN if more rows must be checked before the
-- request can be decided on.
local ASK_AGAIN = -1
local NEVER = -math.huge

local argv = ARGV
local givenTime, holder, number, cap, quotas, runs, held = unpack(cjson.decode(argv[1]))
local time = timeOf(givenTime)
-- The positions in a demand, in the order of arguments.ts, and then its place in the rows found.
local QUOTA, MOST, COST, CALLER, WINDOW_END, FOUND = 1, 2, 3, 4, 5, 6

-- A server that evicts a shard when its memory is full would do so again and again. Any server can lose a shard otherwise, for example when
-- it restarts.
local function assertNotEvicted ()
  -- A server that uses more than this part of its memory may have evicted the shard.
  local NEARLY_FULL = 0.9
  local memory = redis.pcall('INFO', 'memory')
  if type(memory) ~= 'string' then error('EVICTED the server may have evicted the counters, and its user cannot run INFO', 0) end
  local most = string.match(memory, '\nmaxmemory:(%d+)') + 0
  if most > 0 and string.match(memory, 'used_memory:(%d+)') / most >= NEARLY_FULL and not string.find(memory, 'policy:noeviction', 1, true) then
    error('EVICTED the server has evicted the counters, because its memory is full', 0)
  end
end

-- Removes the dead ones of a page of rows. Returns whether there were any.
local function checkRows (quota)
  -- Checking so many rows takes one or two milliseconds. Lua's stack holds about 8,000 values.
  local PAGE, REMOVED_AT_ONCE = 1000, 4000
  local page = call('HSCAN', quota.key, string.format('%.0f', quota.cursor), 'COUNT', PAGE)
  local dead = {}
  for place = 1, #page[2], 2 do
    local caller, row = page[2][place], page[2][place + 1]
    local isDead = false
    if caller ~= STATE and quota.window == 0 then
      local _, parts = placesOf(row, '', quota.now)
      isDead = parts == ''
    elseif caller ~= STATE then
      local lastSeen = read('d', row, LAST_SEEN_POSITION)
      isDead = quota.sweptAt - lastSeen >= retention(quota.window)
      if not isDead and lastSeen < quota.oldest then quota.oldest = lastSeen end
    end
    if isDead then dead[#dead + 1] = caller end
  end
  for first = 1, #dead, REMOVED_AT_ONCE do
    call('HDEL', quota.key, unpack(dead, first, math.min(first + REMOVED_AT_ONCE - 1, #dead)))
  end
  quota.cursor, quota.isChanged = page[1] == '0' and ALL_CHECKED or tonumber(page[1]), true
  return dead[1] ~= nil
end

for index = 1, #quotas do
  local settings = quotas[index]
  quotas[index] = {
    key = KEYS[index + 1], window = settings[1], isExpected = settings[2], hasRepeats = settings[3], fields = { STATE }, written = {}, size = 0, changed = {}
  }
end

local at = 1
for index = 1, #runs do
  local requests, callers, demands = unpack(runs[index])
  for _, demand in ipairs(demands) do
    local quota, first = quotas[demand[QUOTA]], at + demand[CALLER]
    local fields = quota.fields
    local size = #fields
    demand[QUOTA], demand[FOUND] = quota, size
    for request = 1, requests do fields[size + request] = argv[first + (request - 1) * callers] end
  end
  at = at + requests * callers
end

-- Reads the rows of the callers, and sweeps if that is due.
for index = 1, #quotas do
  local quota = quotas[index]
  local found, window = call('HMGET', quota.key, unpack(quota.fields)), quota.window
  if found[1] then
    readState(quota, found[1], time)
    quota.isChanged, quota.window = quota.window ~= window, window
  else
    if quota.isExpected then assertNotEvicted() end
    newState(quota, window, time)
    found = {}
  end
  local isSweepDue, isEachKnown = quota.now - quota.sweptAt >= SWEEP_INTERVAL, true
  for place = 2, #quota.fields do isEachKnown = isEachKnown and found[place] end
  if isSweepDue or not isEachKnown then
    if isSweepDue then
      quota.sweeps, quota.sweptAt, quota.isClockSet = quota.sweeps + 1, quota.now, true
      if window == 0 or quota.cursor ~= ALL_CHECKED or quota.now - quota.oldest >= retention(window) then quota.cursor, quota.oldest = 0, quota.now end
    end
    if quota.cursor ~= ALL_CHECKED and checkRows(quota) then found = call('HMGET', quota.key, unpack(quota.fields)) end
    quota.rows = math.max(0, call('HLEN', quota.key) - 1)
  end
  quota.found = found
end

-- What the demands of a request have reached: lists by the number of the demand, because a table for each takes longer.
local counts, starts, nonces, flags, others, parts = {}, {}, {}, {}, {}, {}
local replies, size, places, nextNonce = {}, 0, 0, number
at = 1
for run = 1, #runs do
  local requests, callers, demands = unpack(runs[run])
  for request = 1, requests do
    local isKnown, isAdmitted = true, true
    for index = 1, #demands do
      local demand = demands[index]
      local quota, caller = demand[QUOTA], argv[at + demand[CALLER]]
      local row = quota.hasRepeats and quota.changed[caller] or quota.found[demand[FOUND] + request]
      local now, window = quota.now, quota.window
      local count, start, nonce, flag, room = 0, NEVER, 0, 0, demand[MOST]
      if window == 0 then
        places = places + 1
        local ofOthers, partsOfOthers, own, latestCall = placesOf(row or '', holder, now)
        if latestCall ~= number then own = held[places] end
        count, start, others[index], parts[index] = ofOthers + own, 0, ofOthers, partsOfOthers
        -- A call is late if a later one has written how many places this process holds.
        if latestCall and latestCall > number then room, parts[index] = -1, false end
      else
        nextNonce = nextNonce + 1
        if row then
          local lastSeen
          count, start, lastSeen, nonce = read(ROW, row)
          if lastSeen > now then now, quota.now, quota.isClockSet = lastSeen, lastSeen, true end
        elseif quota.rows < cap then
          quota.rows = quota.rows + 1
        else
          count, start, nonce, flag = quota.overflowCount, quota.overflowStart, quota.overflowNonce, 2
          if quota.cursor ~= ALL_CHECKED then isKnown, flag = false, ASK_AGAIN end
        end
        local windowEnd = demand[WINDOW_END]
        if windowEnd then
          if windowEnd > start then count, start, nonce = 0, windowEnd, nextNonce end
        elseif now - start >= window then
          count, start, nonce = 0, now, nextNonce
        end
      end
      if count > room then isAdmitted = false elseif flag >= 0 then flag = flag + 1 end
      counts[index], starts[index], nonces[index], flags[index] = count, start, nonce, flag
    end
    for index = 1, #demands do
      local demand = demands[index]
      local quota, caller = demand[QUOTA], argv[at + demand[CALLER]]
      local now, window = quota.now, quota.window
      local count, start, nonce, flag = counts[index], starts[index], nonces[index], flags[index]
      if isKnown and isAdmitted then
        count = count + demand[COST]
        if count > LARGEST_COUNT then count = LARGEST_COUNT end
      end
      local row
      if window == 0 then
        local own = count - others[index]
        if parts[index] then row = parts[index] .. holder .. pack(PART, own, now + LEASE, number) end
      elseif flag >= 2 then
        quota.overflowCount, quota.overflowStart, quota.overflowNonce, quota.isChanged = count, start, nonce, true
      elseif flag >= 0 then
        row = pack(ROW, count, start, now, nonce)
      end
      if row then
        if quota.hasRepeats then quota.changed[caller] = row end
        local written, place = quota.written, quota.size
        written[place + 1], written[place + 2], quota.size = caller, row, place + 2
      end
      if not isKnown then count = ASK_AGAIN elseif count > LARGEST_INTEGER then count = exactly(count) end
      if window > 0 then start = start + window - now end
      replies[size + 1], replies[size + 2], replies[size + 3], size = count, start, nonce * 4 + flag, size + 3
    end
    at = at + callers
  end
end

for index = 1, #quotas do write(quotas[index], KEYS[1], time) end
return replies
