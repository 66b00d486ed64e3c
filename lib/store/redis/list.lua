-- Reads a page of the callers of a quota that have an open window or places.
-- include layout.part.lua
--
-- ARGV[1] is a JSON object:
--   time    milliseconds of the store's own clock, if it has one
--   date    milliseconds since the epoch
--   quota   the name of the quota
--   cursor  '0' for the first page
--
-- Returns the cursor of the next page, '0' if this is the last one; and for each caller its key,
-- the count, what is held, how long the window stays open in milliseconds (0 where it has an end),
-- and when it ends since the epoch (0 where it has a length). Both are 0 for places.

-- A pattern of HSCAN for fields that begin with the prefix.
local function patternOf (prefix)
  return string.gsub(prefix, '[][*?\\^]', '\\%0') .. '*'
end

local call = cjson.decode(ARGV[1])
local found = readWindows({ CLOCK_FIELD, 'quota:' .. call.quota })
if not found then return { '0' } end
local clock = readClock(found[1])
local now = startClock(clock, call.time or -1)

local quota = nil
if found[2] then
  quota = {}
  readQuota(quota, found[2])
end
local prefix = call.quota .. ' '
if not quota then prefix = 'total ' .. prefix end
local key = quota and WINDOWS or PLACES
local page = redis.call('HSCAN', key, call.cursor, 'MATCH', patternOf(prefix), 'COUNT', PAGE)
local reply = { page[1] }

local function add (field, count, held, left, ends)
  local first = #reply
  reply[first + 1] = string.sub(field, #prefix + 1)
  reply[first + 2] = shown(count)
  reply[first + 3] = shown(held)
  reply[first + 4] = left
  reply[first + 5] = ends
end

for index = 1, #page[2], 2 do
  local field = page[2][index]
  if not quota then
    local total = tonumber(page[2][index + 1])
    add(field, total, total, 0, 0)
  else
    local counter = readCounter(page[2][index + 1])
    if quota.isZoned == 1 then
      if counter.ends > call.date then add(field, counter.count, counter.held, 0, counter.ends) end
    elseif counter.ends > now then
      add(field, counter.count, counter.held, counter.ends - now, 0)
    end
  end
end
return reply
