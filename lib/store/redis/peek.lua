-- Reads the counter that a demand would reach, as it would be after a sweep if one is due. Does not write.
-- include layout.part.lua
--
-- KEYS: the hash of the quota. ARGV: the time in ms, 'nan' for the server's; the caller; how many callers the quota can track; the window,
-- as in the state; its end or ''; and a cursor, '0' at first. Returns what acquire.lua does for one demand; an empty list if the next
-- request would open a window; or the next cursor, with which it must run again, because only other rows show whether the cap is reached.
local PAGE <const> = 1000
local key, time, window = KEYS[1], ARGV[1] + 0, ARGV[4] + 0
local found = call('HMGET', key, STATE, ARGV[2])
local state, row = found[1], found[2]
if not state then return window == 0 and { 0, 0, 0 } or {} end
-- include clock.part.lua
if window == 0 then
  local holder = ''
  -- include places.part.lua
  return { now, others, 0 }
end
local count, opened = overflowCount, overflowOpened
if row then
  count, opened = read('dd', row)
elseif call('HLEN', key) - 1 < ARGV[3] + 0 then
  return {}
else
  local isSweepDue, retention = now - sweptAt >= SWEEP_INTERVAL, math.abs(window) + RETENTION_AFTER_WINDOW
  if isSweepDue then sweptAt = now end
  if cursor ~= ALL_CHECKED or isSweepDue and now - oldest >= retention then
    local page = call('HSCAN', key, ARGV[6], 'COUNT', PAGE)
    for place = 1, #page[2], 2 do
      if page[2][place] ~= STATE and sweptAt - read('d', page[2][place + 1], LAST_SEEN_POSITION) >= retention then return {} end
    end
    if page[1] ~= '0' then return page[1] end
  end
end
local finish = tonumber(ARGV[5])
if opened < (finish or now - window + 1) then return {} end
return { now, string.format('%.0f', count), (finish and opened - finish or now - opened) * NONCES * FLAGS + (row and 0 or 2) }
