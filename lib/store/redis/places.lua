-- Takes, renews and gives back places of requests in flight. For each of them, the entry's own place is given back, and taken again if fewer
-- than the limit are left. A limit of 0 thus gives a place back or only asks, and the largest limit renews it, even after it was lost.
--
-- HAS_CLOCK, written above this text: whether the last of ARGV is the time in ms. KEYS: the places of the shard. ARGV: how many rows to check
-- for expired leases, then the callers, the ids of the entries and the limits. Returns for each the number of places taken, as an integer that
-- is negative if this one was not taken; -1 for none.
local LEASE = 30000
-- A caller's row is a list of entries, each an id of this length and the time at which its lease ends.
local ID_LENGTH, ENTRY_LENGTH = 16, 24
-- The byte 255 does not occur in UTF-8, so no caller has this name. The field holds the cursor of the check, and is longer than 64 bytes, so that
-- the server keeps a hash table.
local CURSOR, CURSOR_FORMAT = '\255', '%-65s'

local key, call, sub, pack, unpacked = KEYS[1], redis.call, string.sub, struct.pack, struct.unpack
local last = #ARGV
local now
if HAS_CLOCK then
  last, now = last - 1, ARGV[last] + 0
else
  local time = call('TIME')
  now = time[1] * 1000 + time[2] / 1000
end
local count = (last - 1) / 3

-- Returns the row without the entry with the given id and without those whose leases have ended. No lease ends later than one that begins
-- now, even if the server's clock was set back.
local function others (row, id)
  local kept = ''
  for first = 1, #row, ENTRY_LENGTH do
    local other, ends = sub(row, first, first + ID_LENGTH - 1), unpacked('d', row, first + ID_LENGTH)
    if other ~= id and ends > now then kept = kept .. other .. pack('d', math.min(ends, now + LEASE)) end
  end
  return kept
end

local found = call('HMGET', key, CURSOR, unpack(ARGV, 2, count + 1))
local cursor = found[1]
local replies, changed, isAnyTaken = {}, {}, false
local own = pack('d', now + LEASE)
for index = 1, count do
  local caller, id = ARGV[1 + index], ARGV[1 + index + count]
  local row = changed[caller] or found[1 + index]
  local new = row and others(row, id) or ''
  local taken = #new / ENTRY_LENGTH
  if taken < ARGV[1 + index + 2 * count] + 0 then
    new, isAnyTaken = new .. id .. own, true
    replies[index] = taken + 1
  else
    replies[index] = -taken - 1
  end
  if new ~= (row or '') then changed[caller] = new end
end

if ARGV[1] ~= '0' then
  local page = call('HSCAN', key, string.match(cursor or '0', '%d+'), 'COUNT', ARGV[1])
  for place = 1, #page[2], 2 do
    local caller, row = page[2][place], page[2][place + 1]
    if caller ~= CURSOR and not changed[caller] then
      local new = others(row, '')
      if new ~= row then changed[caller] = new end
    end
  end
  cursor = page[1]
end

local written, removed = { CURSOR, string.format(CURSOR_FORMAT, cursor or 0) }, {}
for caller, row in pairs(changed) do
  if row == '' then
    removed[#removed + 1] = caller
  else
    written[#written + 1], written[#written + 2] = caller, row
  end
end
if written[3] or cursor ~= found[1] then call('HSET', key, unpack(written)) end
if removed[1] then call('HDEL', key, unpack(removed)) end
if isAnyTaken then call('PEXPIRE', key, LEASE) end
return replies
