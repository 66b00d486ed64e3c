-- What the scripts have in common: the counters of a quota in a shard are a hash with a row for each caller and a state. The set of the
-- keys of these hashes is the shard's register.
local call, pack, read, sub = redis.call, struct.pack, struct.unpack, string.sub

-- The byte 255 does not occur in UTF-8, so no caller has the name of this field. It holds the version of the layout; the offset of the
-- clock and the latest time known; the time of the latest sweep and the number of sweeps; the length of the window (0: requests in flight;
-- negative: windows with an end); the overflow counter's count, window and nonce; the earliest last request that the check of the rows has
-- found, and the cursor of that check. It is longer than 64 bytes, so that the server keeps a hash table.
local STATE, VERSION, STATE_FORMAT = '\255', '1', 'dddddddddd'
-- A row holds the count, the window's start, or its end where it has one, the time of the last request and the nonce of the window.
local ROW, LAST_SEEN_POSITION = 'dddd', 17
-- For requests in flight it has a part for each process: its name, how many places it holds, when its lease ends, and the number of the
-- call that wrote it.
local NAME_LENGTH, PART, PART_LENGTH = 16, 'ddd', 40
local LEASE, SWEEP_INTERVAL, ALL_CHECKED = 30000, 60000, -1
local LARGEST_COUNT = 9007199254740991
-- The age of the stored time, in ms, which limits how much longer a window becomes when the server's clock is set back.
local CLOCK_LAG = 100

-- Clients read an integer of more than 52 bits inexactly, but not a text.
local LARGEST_INTEGER = 4503599627370496
local function exactly (count) return count > LARGEST_INTEGER and string.format('%.0f', count) or count end

-- Returns the given time in ms, or the server's if there is none.
local function timeOf (given)
  if given then return given end
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- How long a row is kept after its last request.
local function retention (window) return window == 0 and LEASE or math.abs(window) + 60000 end

-- Reads the state of a quota and its time, which does not run backwards.
local function readState (quota, state, time)
  if sub(state, 1, 1) ~= VERSION then error('VERSION ' .. quota.key .. ' has the layout of another version of this store: use another keyPrefix', 0) end
  quota.offset, quota.latest, quota.sweptAt, quota.sweeps, quota.window, quota.overflowCount, quota.overflowStart, quota.overflowNonce, quota.oldest,
    quota.cursor = read(STATE_FORMAT, state, 2)
  quota.now = time + quota.offset
  if quota.now < quota.latest then quota.now, quota.isClockSet = quota.latest, true end
end

local function newState (quota, window, time)
  quota.now, quota.latest, quota.sweptAt, quota.oldest, quota.isClockSet = time, time, time, time, true
  quota.sweeps, quota.window, quota.cursor = 0, window, ALL_CHECKED
  quota.overflowCount, quota.overflowStart, quota.overflowNonce = 0, -math.huge, 0
  -- Rows are useless without the clock. Only a key that exists is removed, because after a first write the server would no longer refuse
  -- the others when its memory is full.
  if call('EXISTS', quota.key) == 1 then call('UNLINK', quota.key) end
end

-- Writes the fields in `written`, and the state if it has changed.
local function write (quota, register, time)
  local written, size = quota.written, quota.size
  local now = quota.now
  local expires = quota.isClockSet or quota.window == 0 and now - quota.sweptAt >= SWEEP_INTERVAL
  if expires or quota.isChanged or now - quota.latest >= CLOCK_LAG then
    written[size + 1], written[size + 2], size = STATE, VERSION .. pack(STATE_FORMAT, now - time, now, quota.sweptAt, quota.sweeps, quota.window,
      quota.overflowCount, quota.overflowStart, quota.overflowNonce, quota.oldest, quota.cursor), size + 2
  end
  if size == 0 then return end
  call('HSET', quota.key, unpack(written, 1, size))
  if expires then
    -- A request after this time would find every row dead.
    local expiry = retention(quota.window) + SWEEP_INTERVAL
    call('PEXPIRE', quota.key, expiry)
    call('SADD', register, quota.key)
    if call('PTTL', register) < expiry then call('PEXPIRE', register, expiry) end
  end
end

-- Splits a row of places: how many other processes hold and their parts, and how many this process holds and the call that wrote it.
local function placesOf (row, holder, now)
  local others, parts, own, latestCall = 0, '', 0, nil
  for first = 1, #row, PART_LENGTH do
    local held, leaseEnd, number = read(PART, row, first + NAME_LENGTH)
    if sub(row, first, first + NAME_LENGTH - 1) == holder then
      own, latestCall = held, number
    elseif leaseEnd > now then
      others, parts = others + held, parts .. sub(row, first, first + PART_LENGTH - 1)
    end
  end
  return others, parts, own, latestCall
end
