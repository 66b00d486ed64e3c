-- Runs the acquire step for callers of one shard, in order and atomically (docs/scaling.md, "Why the shared store is exact").
--
-- The store writes these constants above this text: WINDOW in ms, CAP (how many callers the shard can track), HAS_CLOCK, HAS_LIMITS, HAS_REPEATS
-- (whether a caller can occur twice), and COST, or false for costs in ARGV.
-- KEYS: the counters of the shard. ARGV: the callers; their limits, without HAS_LIMITS one for all; without COST their costs; with HAS_CLOCK the
-- time in ms; and 'new' unless the process has had a decision of the shard within a window.
-- Returns an integer for each caller, and a single one for a single caller: the count, 27 bits for the milliseconds until the window ends,
-- and 2 bits for the sum of the flags below. Where a number does not fit, the three are text.

local call = redis.call
-- A single caller with a row, between two sweeps, is decided on here at the least cost: with literals, because each local variable costs time. The
-- general form below, which explains them, gives the same outcome.
if COST and #ARGV == 2 then
  local key, caller, read = KEYS[1], ARGV[1], struct.unpack
  local found = call('HMGET', key, '\255', caller)
  if found[1] and found[2] then
    local offset, latest, sweptAt = read('ddd', found[1])
    local count, windowStart, lastSeen = read('ddd', found[2])
    local now = offset - call('PTTL', key)
    if now >= latest and now <= offset and now >= lastSeen and now - sweptAt < 60000 then
      if now - windowStart >= WINDOW then count, windowStart = 0, now end
      local flags = 0
      if count < ARGV[2] + 0 then count, flags = count + COST, 1 end
      if count < 16777216 and WINDOW < 134217728 then
        local row = struct.pack('ddd', count, windowStart, now)
        if now - latest < 100 then
          call('HSET', key, caller, row)
        else
          call('HSET', key, caller, row, '\255', struct.pack('ddd', offset, now, sweptAt) .. string.sub(found[1], 25))
        end
        return (count * 134217728 + windowStart + WINDOW - now) * 4 + flags
      end
    end
  end
end

local ADMITTED, OVERFLOW = 1, 2
-- More rows must be checked before this caller can be decided on: the store sends it again.
local ASK_AGAIN = -1

-- The byte 255 does not occur in UTF-8, so no caller has the name of this field. It holds the offset of the clock, the latest time known,
-- the time of the latest sweep; the number of sweeps, the overflow counter's count and window, the earliest last request that the check of
-- the rows has found, and the cursor of that check. The last byte makes it longer than 64 bytes, so that the server keeps a hash table.
local STATE, CLOCK, SWEEP, SWEEP_POSITION = '\255', 'ddd', 'ddddd', 25
local ALL_CHECKED = -1
-- A row holds a caller's count, the start of its window and the time of its last request.
local ROW, LAST_SEEN_POSITION, ROW_LENGTH = 'ddd', 17, 24
local SWEEP_INTERVAL, RETENTION = 60000, WINDOW + 60000
-- A request after this time would find every row dead.
local EXPIRY = RETENTION + SWEEP_INTERVAL
-- The age of the stored time, in ms, which limits how much longer a window becomes when the server's clock is set back.
local CLOCK_LAG = 100
-- Checking so many rows takes one or two milliseconds. Lua's stack holds about 8,000 values.
local PAGE, REMOVED_AT_ONCE = 1000, 4000
local LARGEST_COUNT = 9007199254740991
-- A server that uses more than this part of its memory may have evicted a shard.
local NEARLY_FULL = 0.9

local key, argv, pack, read = KEYS[1], ARGV, struct.pack, struct.unpack
local last = #argv
local isExpected = argv[last] ~= 'new'
if not isExpected then last = last - 1 end
local given
if HAS_CLOCK then given, last = argv[last] + 0, last - 1 end
local callers = HAS_LIMITS and last / (COST and 2 or 3) or (last - 1) / (COST and 1 or 2)
local lastLimit = last - (COST and 0 or callers)
local limit, cost = argv[lastLimit] + 0, COST

local found = call('HMGET', key, STATE, unpack(argv, 1, callers))
local state = found[1]
local offset, latest, sweptAt, now, sweeps, overflowCount, overflowStart, oldest, cursor
local isClockSet, isSweepChanged = false, false
if state then
  offset, latest, sweptAt = read(CLOCK, state)
  -- The key's own time to live is the cheapest clock that a script can read.
  now = offset + (given or -call('PTTL', key))
  if now < latest or now > offset and not given then now, isClockSet = latest, true end
else
  if isExpected then
    -- A server that evicts a shard when its memory is full would do so again and again. Any server can lose a shard otherwise, for example when it
    -- restarts.
    local memory = redis.pcall('INFO', 'memory')
    if type(memory) ~= 'string' then return redis.error_reply('EVICTED the server may have evicted the counters, and its user cannot run INFO') end
    local most = string.match(memory, '\nmaxmemory:(%d+)') + 0
    if most > 0 and string.match(memory, 'used_memory:(%d+)') / most >= NEARLY_FULL and not string.find(memory, 'policy:noeviction', 1, true) then
      return redis.error_reply('EVICTED the server has evicted the counters, because its memory is full')
    end
  end
  -- Rows are useless without the clock. Only a key that exists is removed, because after a first write the server would no longer refuse
  -- the others when its memory is full.
  if call('EXISTS', key) == 1 then call('UNLINK', key) end
  found, now, isClockSet = {}, given or 0, true
  latest, sweptAt, sweeps, overflowCount, overflowStart, oldest, cursor = now, now, 0, 0, now - WINDOW, now, ALL_CHECKED
end

local isSweepDue = now - sweptAt >= SWEEP_INTERVAL
local isEachKnown = true
for index = 2, callers + 1 do isEachKnown = isEachKnown and found[index] end
local rows
if isSweepDue or not isEachKnown then
  if not sweeps then sweeps, overflowCount, overflowStart, oldest, cursor = read(SWEEP, state, SWEEP_POSITION) end
  if isSweepDue then
    sweeps, sweptAt, isClockSet = sweeps + 1, now, true
    if cursor ~= ALL_CHECKED or now - oldest >= RETENTION then cursor, oldest = 0, now end
  end
  if cursor ~= ALL_CHECKED then
    local page = call('HSCAN', key, string.format('%.0f', cursor), 'COUNT', PAGE)
    local dead = {}
    for place = 1, #page[2], 2 do
      local row = page[2][place + 1]
      if #row == ROW_LENGTH then
        local lastSeen = read('d', row, LAST_SEEN_POSITION)
        if sweptAt - lastSeen >= RETENTION then dead[#dead + 1] = page[2][place] elseif lastSeen < oldest then oldest = lastSeen end
      end
    end
    for first = 1, #dead, REMOVED_AT_ONCE do
      call('HDEL', key, unpack(dead, first, math.min(first + REMOVED_AT_ONCE - 1, #dead)))
    end
    if dead[1] then found = call('HMGET', key, STATE, unpack(argv, 1, callers)) end
    cursor, isSweepChanged = page[1] == '0' and ALL_CHECKED or tonumber(page[1]), true
  end
  rows = math.max(0, call('HLEN', key) - 1)
end

-- Each reply takes the place before its row in `found`. A table that begins with room for all that is written costs less than one that grows.
local changed, written, size = {}, { unpack(argv, 1, 2 * callers) }, 0
for index = 1, callers do
  local caller = argv[index]
  if HAS_LIMITS then limit = argv[callers + index] + 0 end
  if not COST then cost = argv[lastLimit + index] + 0 end
  local count, windowStart, lastSeen
  local overflow = 0
  local row = changed[caller] or found[index + 1]
  if row then
    count, windowStart, lastSeen = read(ROW, row)
    if lastSeen > now then now, isClockSet = lastSeen, true end
  elseif rows < CAP then
    rows, count, windowStart = rows + 1, 0, now
  elseif cursor == ALL_CHECKED then
    overflow, count, windowStart = OVERFLOW, overflowCount, overflowStart
  end
  local reply = ASK_AGAIN
  if count then
    local flags = overflow
    if now - windowStart >= WINDOW then count, windowStart = 0, now end
    if count < limit then
      count, flags = count + cost, flags + ADMITTED
      if count > LARGEST_COUNT then count = LARGEST_COUNT end
    end
    if overflow == 0 then
      row = pack(ROW, count, windowStart, now)
    else
      overflowCount, overflowStart, isSweepChanged = count, windowStart, true
    end
    local left = windowStart + WINDOW - now
    if count < 16777216 and left < 134217728 and left % 1 == 0 then
      reply = (count * 134217728 + left) * 4 + flags
    else
      reply = string.format('%.0f %.17g %.0f', count, left, flags)
    end
  end
  found[index] = reply
  if row then
    if HAS_REPEATS then changed[caller] = row end
    written[size + 1], written[size + 2], size = caller, row, size + 2
  end
end
found[callers + 1] = nil

if isClockSet then
  offset = now - (given or -EXPIRY)
elseif not isSweepChanged and now - latest < CLOCK_LAG then
  call('HSET', key, unpack(written, 1, size))
  return callers == 1 and found[1] or found
end
local sweep = sweeps and pack(SWEEP .. 'B', sweeps, overflowCount, overflowStart, oldest, cursor, 0) or string.sub(state, SWEEP_POSITION)
call('HSET', key, STATE, pack(CLOCK, offset, now, sweptAt) .. sweep, unpack(written, 1, size))
-- After the HSET, which a server whose memory is full has refused by now.
if isClockSet then call('PEXPIRE', key, EXPIRY) end
return callers == 1 and found[1] or found
