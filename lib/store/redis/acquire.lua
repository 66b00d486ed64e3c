-- Decides on requests of callers of one shard, in order and atomically (docs/scaling.md, "Why the shared store is exact").
-- include layout.part.lua
-- include places.part.lua
--
-- KEYS: the shard's register; the hash of each quota. ARGV: the settings, which arguments.ts describes; the callers of the quotas.
-- Returns three integers for each demand on a window: the count; the milliseconds until the window ends, or its end; and four times the
-- nonce of the window, plus 1 if the demand has room, plus 2 for the overflow counter. For each demand on places two: the count, and 1 if
-- it has room. The first is ASK_AGAIN if more rows must be checked before the request can be decided on.
local ASK_AGAIN <const> = -1
-- Further positions in a quota: the rows found, the latest of them that has been decided on, the number of the argument before the first
-- caller, and the rows written so far where a caller can occur twice.
local FOUND <const>, PLACE <const>, FIRST_CALLER <const>, CHANGED <const>, ROWS <const> = 18, 19, 20, 21, 22
-- The positions in a demand, in the order of arguments.ts: the end of the window is, for requests in flight, how many places this process
-- holds. Then what is kept until its request has been decided on: what was counted before it, and where it was written.
local QUOTA <const>, MOST <const>, COST <const>, WINDOW_END <const>, BEFORE <const>, WRITTEN_AT <const> = 1, 2, 3, 4, 5, 6
local IN_OVERFLOW <const> = -1

local argv, settings = ARGV, ARGV[1]
local time, number, cap, runs, at = read('dddd', settings, NAME_LENGTH + 1)

-- Reads the rows of the callers, and sweeps if that is due.
local quotas = { nil, nil, nil }
for index = 1, #KEYS - 1 do
  local window, first, last, isExpected, hasRepeats
  window, first, last, isExpected, hasRepeats, at = read('ddddd', settings, at)
  local quota = {
    KEYS[index + 1], 0, 0, 0, 0, window, 0, 0, 0, 0, 0, 0, 0, false, false, { nil, nil }, 0, false, 1, first - 2, hasRepeats == 1 and {}, 0
  }
  local found = call('HMGET', quota[KEY], STATE, unpack(argv, first, last))
  local state = found[1]
  if state then
    -- include read-state.part.lua
    if quota[WINDOW] ~= window then quota[WINDOW], quota[IS_CHANGED] = window, true end
  else
    if isExpected == 1 then
      -- A server that evicts a shard when its memory is full would do so again and again. Any server can lose a shard otherwise, for
      -- example when it restarts. One that uses more than this part of its memory may have evicted the shard.
      local NEARLY_FULL <const> = 0.9
      local memory = redis.pcall('INFO', 'memory')
      if type(memory) ~= 'string' then error('EVICTED the server may have evicted the counters, and its user cannot run INFO', 0) end
      local most = string.match(memory, '\nmaxmemory:(%d+)') + 0
      local isFull = most > 0 and string.match(memory, 'used_memory:(%d+)') / most >= NEARLY_FULL
      if isFull and not string.find(memory, 'policy:noeviction', 1, true) then
        error('EVICTED the server has evicted the counters, because its memory is full', 0)
      end
    end
    -- include create-state.part.lua
    found = {}
  end
  local isSweepDue, isEachKnown = quota[NOW] - quota[SWEPT_AT] >= SWEEP_INTERVAL, true
  for place = 2, last - first + 2 do
    if not found[place] then isEachKnown = false end
  end
  if isSweepDue or not isEachKnown then
    local now, retention = quota[NOW], window == 0 and LEASE or math.abs(window) + RETENTION_AFTER_WINDOW
    if isSweepDue then
      quota[SWEEPS], quota[SWEPT_AT], quota[IS_CLOCK_SET] = quota[SWEEPS] + 1, now, true
      if window == 0 or quota[CURSOR] ~= ALL_CHECKED or now - quota[OLDEST] >= retention then quota[CURSOR], quota[OLDEST] = 0, now end
    end
    if quota[CURSOR] ~= ALL_CHECKED then
      -- Removes the dead ones of a page of rows. Checking so many takes one or two milliseconds. Lua's stack holds about 8,000 values.
      local PAGE <const> = 1000
      local REMOVED_AT_ONCE <const> = 4000
      local page = call('HSCAN', quota[KEY], string.format('%.0f', quota[CURSOR]), 'COUNT', PAGE)
      local dead = {}
      for place = 1, #page[2], 2 do
        local caller, row = page[2][place], page[2][place + 1]
        local isDead = false
        if caller ~= STATE and window == 0 then
          local _, parts = placesOf(row, '', now)
          isDead = parts == ''
        elseif caller ~= STATE then
          local lastSeen = read('d', row, LAST_SEEN_POSITION)
          isDead = quota[SWEPT_AT] - lastSeen >= retention
          if not isDead and lastSeen < quota[OLDEST] then quota[OLDEST] = lastSeen end
        end
        if isDead then dead[#dead + 1] = caller end
      end
      for from = 1, #dead, REMOVED_AT_ONCE do
        call('HDEL', quota[KEY], unpack(dead, from, math.min(from + REMOVED_AT_ONCE - 1, #dead)))
      end
      quota[CURSOR], quota[IS_CHANGED] = page[1] == '0' and ALL_CHECKED or tonumber(page[1]), true
      if dead[1] then found = call('HMGET', quota[KEY], STATE, unpack(argv, first, last)) end
    end
    quota[ROWS] = math.max(0, call('HLEN', quota[KEY]) - 1)
  end
  quota[FOUND] = found
  quotas[index] = quota
end

-- A list is filled in order and begins with a size, because one that grows otherwise takes longer.
local replies, size, nonce = { nil, nil, nil }, 0, number
for run = 1, runs do
  local requests, length, demands
  requests, length, at = read('dd', settings, at)
  demands = { nil, nil, nil }
  for index = 1, length do
    local quota, most, cost, windowEnd
    quota, most, cost, windowEnd, at = read('dddd', settings, at)
    demands[index] = { quotas[quota], most, cost, windowEnd, 0, 0 }
  end
  for request = 1, requests do
    local isKnown, isAdmitted, reply = true, true, size
    -- Counts each demand as if the request were admitted.
    for index = 1, length do
      local demand = demands[index]
      local quota, most, flag, writtenAt = demand[QUOTA], demand[MOST], 0, 0
      local place, window, changed = quota[PLACE] + 1, quota[WINDOW], quota[CHANGED]
      local caller, row = argv[quota[FIRST_CALLER] + place], quota[FOUND][place]
      quota[PLACE] = place
      if changed then row = changed[caller] or row end
      if window == 0 then
        local holder = sub(settings, 1, NAME_LENGTH)
        local others, parts, own, latestCall = placesOf(row or '', holder, quota[NOW])
        if latestCall ~= number then own = demand[WINDOW_END] end
        row = parts .. holder .. pack(PART, own + demand[COST], quota[NOW] + LEASE, number)
        -- A call is late if a later one has written how many places this process holds.
        if latestCall and latestCall > number then most, row = -1, nil end
        if others + own > most then isAdmitted = false else flag = 1 end
        demand[BEFORE] = own
        replies[size + 1] = others + own + demand[COST]
        replies[size + 2] = flag
        size = size + 2
      else
        local now, count, start, lastSeen, ownNonce = quota[NOW], 0, NEVER
        nonce = nonce + 1
        if row then
          count, start, lastSeen, ownNonce = read(ROW, row)
          if lastSeen > now then now, quota[NOW], quota[IS_CLOCK_SET] = lastSeen, lastSeen, true end
        elseif quota[ROWS] < cap then
          quota[ROWS] = quota[ROWS] + 1
        else
          count, start, ownNonce, flag = quota[OVERFLOW_COUNT], quota[OVERFLOW_START], quota[OVERFLOW_NONCE], 2
          if quota[CURSOR] ~= ALL_CHECKED then isKnown = false end
        end
        if window > 0 then
          if now - start >= window then count, start, ownNonce = 0, now, nonce end
        elseif demand[WINDOW_END] > start then
          count, start, ownNonce = 0, demand[WINDOW_END], nonce
        end
        demand[BEFORE] = count
        if count > most then isAdmitted = false else flag = flag + 1 end
        count = count + demand[COST]
        if count > LARGEST_COUNT then count = LARGEST_COUNT end
        if flag < 2 then
          row = pack(ROW, count, start, now, ownNonce)
        elseif isKnown then
          quota[OVERFLOW_COUNT], quota[OVERFLOW_START], quota[OVERFLOW_NONCE] = count, start, ownNonce
          quota[IS_CHANGED], writtenAt = true, IN_OVERFLOW
        end
        if window > 0 then start = start + window - now end
        replies[size + 1] = count > LARGEST_INTEGER and string.format('%.0f', count) or count
        replies[size + 2] = start
        replies[size + 3] = ownNonce * 4 + flag
        size = size + 3
      end
      if row then
        local written = quota[WRITTEN]
        writtenAt = quota[SIZE] + 2
        written[writtenAt - 1] = caller
        written[writtenAt] = row
        quota[SIZE] = writtenAt
        if changed then changed[caller] = row end
      end
      demand[WRITTEN_AT] = writtenAt
    end
    if not isKnown or not isAdmitted then
      -- Takes the costs back.
      for index = 1, length do
        local quota, _, cost, _, before, writtenAt = unpack(demands[index])
        local written = quota[WRITTEN]
        if writtenAt == IN_OVERFLOW then
          quota[OVERFLOW_COUNT] = before
        elseif writtenAt > 0 then
          local row = written[writtenAt]
          local first = quota[WINDOW] == 0 and #row - PART_LENGTH + NAME_LENGTH or 0
          row = sub(row, 1, first) .. pack('d', before) .. sub(row, first + 9)
          written[writtenAt] = row
          if quota[CHANGED] then quota[CHANGED][written[writtenAt - 1]] = row end
        end
        if not isKnown then
          replies[reply + 1] = ASK_AGAIN
        elseif quota[WINDOW] == 0 then
          replies[reply + 1] = replies[reply + 1] - cost
        else
          replies[reply + 1] = before > LARGEST_INTEGER and string.format('%.0f', before) or before
        end
        reply = reply + (quota[WINDOW] == 0 and 2 or 3)
      end
    end
  end
end

for index = 1, #quotas do
  local quota = quotas[index]
  -- include write.part.lua
end
return replies
