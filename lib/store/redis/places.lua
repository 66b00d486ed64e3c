-- Takes, renews and gives back places of requests in flight. For each of them, the entry's own place is given back and taken again if fewer
-- than the limit are left. A limit of 0 thus gives a place back or only asks, and the largest limit renews it, even after it was lost.
--
-- The store writes these constants above this text: HAS_CLOCK, HAS_LIMITS and HAS_REPEATS (whether a caller can occur twice). KEYS: the places of
-- the shard. ARGV: how many rows to check for expired leases, 0 without HAS_REPEATS; the callers; the ids of the entries; their limits, without
-- HAS_LIMITS one for all; with HAS_CLOCK the time in ms. Returns for each the number of places taken, as an integer that is negative if this
-- one was not taken; -1 for none.
local LEASE = 30000
-- A caller's row is a list of entries, each an id of this length and the time at which its lease ends.
local ID_LENGTH, ENTRY_LENGTH = 16, 24
-- The byte 255 does not occur in UTF-8, so no caller has this name. The field holds the cursor of the check and is longer than 64 bytes, so that
-- the server keeps a hash table.
local CURSOR, CURSOR_FORMAT = '\255', '%-65s'

local key, argv, call, find, sub, pack, read = KEYS[1], ARGV, redis.call, string.find, string.sub, struct.pack, struct.unpack
local last = #argv
local now
if HAS_CLOCK then
  last, now = last - 1, argv[last] + 0
else
  local time = call('TIME')
  now = time[1] * 1000 + time[2] / 1000
end
local count = HAS_LIMITS and (last - 1) / 3 or (last - 2) / 2
local limit = argv[last] + 0

-- Returns the row without the entry with the given id and without those whose leases have ended. No lease ends later than one that begins
-- now, even if the server's clock was set back.
local function others (row, id)
  if #row == ENTRY_LENGTH and find(row, id, 1, true) == 1 then return '' end
  local kept = ''
  for first = 1, #row, ENTRY_LENGTH do
    local other, ends = sub(row, first, first + ID_LENGTH - 1), read('d', row, first + ID_LENGTH)
    if other ~= id and ends > now then kept = kept .. other .. pack('d', math.min(ends, now + LEASE)) end
  end
  return kept
end

local written, size, removed = {}, 0, {}
local function write (caller, row)
  if row == '' then
    removed[#removed + 1] = caller
  else
    written[size + 1], written[size + 2], size = caller, row, size + 2
  end
end

local found = call('HMGET', key, CURSOR, unpack(argv, 2, count + 1))
local cursor = found[1]
local replies, changed, isAnyTaken = {}, {}, false
local own = pack('d', now + LEASE)
for index = 1, count do
  local caller, id = argv[1 + index], argv[1 + index + count]
  if HAS_LIMITS then limit = argv[1 + index + 2 * count] + 0 end
  local row = changed[caller] or found[1 + index] or ''
  local new = row == '' and '' or others(row, id)
  local taken = #new / ENTRY_LENGTH
  if taken < limit then
    new, taken, isAnyTaken = new .. id .. own, taken + 1, true
  else
    taken = -taken - 1
  end
  if new ~= row then
    if HAS_REPEATS then changed[caller] = new else write(caller, new) end
  end
  replies[index] = taken
end

if argv[1] ~= '0' then
  local page = call('HSCAN', key, string.match(cursor or '0', '%d+'), 'COUNT', argv[1])
  for place = 1, #page[2], 2 do
    local caller, row = page[2][place], page[2][place + 1]
    if caller ~= CURSOR and not changed[caller] then
      local new = others(row, '')
      if new ~= row then changed[caller] = new end
    end
  end
  cursor = page[1]
end

for caller, row in pairs(changed) do write(caller, row) end
if cursor ~= found[1] or size > 0 and not cursor then write(CURSOR, string.format(CURSOR_FORMAT, cursor or 0)) end
if size > 0 then call('HSET', key, unpack(written)) end
if removed[1] then call('HDEL', key, unpack(removed)) end
if isAnyTaken then call('PEXPIRE', key, LEASE) end
return replies
