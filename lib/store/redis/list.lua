-- Reads a page of the callers with an open window.
-- include layout.part.lua
--
-- KEYS: the hash of the quota. ARGV: the time in ms, '' for the server's; the cursor of the page; and the milliseconds since the epoch.
-- Returns the next cursor, '0' for none, and for each caller the name, the count and the milliseconds until the window ends, or 0.
local PAGE = 100
local quota, date = { key = KEYS[1] }, ARGV[3] + 0
local state = call('HGET', quota.key, STATE)
if not state then return { '0' } end
readState(quota, state, timeOf(tonumber(ARGV[1])))

local page = call('HSCAN', quota.key, ARGV[2], 'COUNT', PAGE)
local replies = { page[1] }
for place = 1, #page[2], 2 do
  local caller, row = page[2][place], page[2][place + 1]
  if caller ~= STATE then
    local isOpen, count, left
    if quota.window == 0 then
      count, left = placesOf(row, '', quota.now), 0
      isOpen = count > 0
    else
      local start, lastSeen
      count, start, lastSeen = read(ROW, row)
      left = quota.window > 0 and start + quota.window - math.max(quota.now, lastSeen) or 0
      isOpen = left > 0 or quota.window < 0 and start > date
    end
    if isOpen then
      local size = #replies
      replies[size + 1], replies[size + 2], replies[size + 3] = caller, exactly(count), left
    end
  end
end
return replies
