-- Reads a page of the callers with an open window.
-- include layout.part.lua
--
-- KEYS: the hash of the quota. ARGV: the time in ms, 'nan' for the server's; the cursor of the page; and the milliseconds since the epoch.
-- Returns the number of rows of the quota, the number of its sweeps, and the next cursor, '0' for none; and for each caller the name, the
-- count and the milliseconds until the window ends, or 0.
local PAGE <const> = 100
local key, time = KEYS[1], ARGV[1] + 0
local state = call('HGET', key, STATE)
if not state then return { 0, 0, '0' } end
-- include clock.part.lua
local page = call('HSCAN', key, ARGV[2], 'COUNT', PAGE)
local replies = { call('HLEN', key) - 1, sweeps, page[1] }
for place = 1, #page[2], 2 do
  local caller, row = page[2][place], page[2][place + 1]
  local count, left, isOpen = 0, 0, false
  if caller ~= STATE and length == 0 then
    local holder = ''
    -- include places.part.lua
    count, isOpen = others, others > 0
  elseif caller ~= STATE then
    local opened
    count, opened = read('dd', row)
    if length > 0 then left = opened + length - now end
    isOpen = left > 0 or length < 0 and opened > ARGV[3] + 0
  end
  if isOpen then
    local size = #replies
    replies[size + 1], replies[size + 2], replies[size + 3] = caller, string.format('%.0f', count), left
  end
end
return replies
