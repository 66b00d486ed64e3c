-- Reads a page of the callers with an open window.
-- include layout.part.lua
-- include places.part.lua
--
-- KEYS: the hash of the quota. ARGV: the time in ms, 'nan' for the server's; the cursor of the page; and the milliseconds since the epoch.
-- Returns the next cursor, '0' for none, and for each caller the name, the count and the milliseconds until the window ends, or 0.
local PAGE = 100
local quota, date = { KEYS[1] }, ARGV[3] + 0
local state = call('HGET', quota[KEY], STATE)
if not state then return { '0' } end
local time = ARGV[1] + 0
-- include read-state.part.lua

local page = call('HSCAN', quota[KEY], ARGV[2], 'COUNT', PAGE)
local replies = { page[1] }
for place = 1, #page[2], 2 do
  local caller, row = page[2][place], page[2][place + 1]
  if caller ~= STATE then
    local isOpen, count, left
    if quota[WINDOW] == 0 then
      count, left = placesOf(row, '', quota[NOW]), 0
      isOpen = count > 0
    else
      local start, lastSeen
      count, start, lastSeen = read(ROW, row)
      left = quota[WINDOW] > 0 and start + quota[WINDOW] - math.max(quota[NOW], lastSeen) or 0
      isOpen = left > 0 or quota[WINDOW] < 0 and start > date
    end
    if isOpen then
      local size = #replies
      if count > LARGEST_INTEGER then count = string.format('%.0f', count) end
      replies[size + 1], replies[size + 2], replies[size + 3] = caller, count, left
    end
  end
end
return replies
