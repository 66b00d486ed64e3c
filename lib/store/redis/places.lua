-- Takes, renews and gives back places of requests in flight. For each of them, the entry's own place is given back, and taken again if fewer
-- than the limit are left. A limit of 0 thus gives a place back or only asks, and the largest limit renews it, even after it was lost.
--
-- HAS_CLOCK, written above this text: whether the last of ARGV is the time in ms. KEYS: the places of the shard. ARGV: how many rows to check
-- for expired leases, then the callers, the ids of the entries and the limits. Returns for each the number of places taken, as an integer that
-- is negative if this one was not taken; -1 for none.
local LEASE = 30000
-- A caller's row is a list of entries, each an id of this length and the time at which its lease ends.
local ID_LENGTH, ENTRY_LENGTH = 16, 24
-- The byte 255 does not occur in UTF-8, so no caller has this name.
local CURSOR = '\255'

local key, call = KEYS[1], redis.call
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
  local kept = {}
  for first = 1, #row, ENTRY_LENGTH do
    local other, ends = string.sub(row, first, first + ID_LENGTH - 1), struct.unpack('d', row, first + ID_LENGTH)
    if ends > now and other ~= id then kept[#kept + 1] = other .. struct.pack('d', math.min(ends, now + LEASE)) end
  end
  return table.concat(kept)
end

local function replace (caller, row, new)
  if new == row then return end
  if new == '' then call('HDEL', key, caller) else call('HSET', key, caller, new) end
end

local replies, isAnyTaken = {}, false
for index = 2, count + 1 do
  local caller, id, limit = ARGV[index], ARGV[index + count], ARGV[index + 2 * count] + 0
  local row = call('HGET', key, caller) or ''
  local new = others(row, id)
  local taken = #new / ENTRY_LENGTH
  if taken < limit then
    new, isAnyTaken = new .. id .. struct.pack('d', now + LEASE), true
    replies[index - 1] = taken + 1
  else
    replies[index - 1] = -taken - 1
  end
  replace(caller, row, new)
end

if ARGV[1] ~= '0' then
  local page = call('HSCAN', key, call('HGET', key, CURSOR) or '0', 'COUNT', ARGV[1])
  for place = 1, #page[2], 2 do
    local caller, row = page[2][place], page[2][place + 1]
    if caller ~= CURSOR then replace(caller, row, others(row, '')) end
  end
  call('HSET', key, CURSOR, page[1])
end
if isAnyTaken then call('PEXPIRE', key, LEASE) end
return replies
