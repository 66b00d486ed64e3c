-- Sweeps if that is due, and removes the dead ones of a page of rows, which makes room for new callers.
local retention, isPageDue = window == 0 and LEASE or math.abs(window) + RETENTION_AFTER_WINDOW, false
if isSweepDue then
  sweeps, sweptAt = sweeps + 1, now
  if cursor ~= ALL_CHECKED or now - oldest >= retention then cursor, oldest = 0, now end
end
if cursor ~= ALL_CHECKED and not (checked or {})[key] then
  -- Checking so many takes one or two milliseconds, of all quotas together. Lua's stack holds about 8,000 values.
  local PAGE <const>, REMOVED_AT_ONCE <const> = 1000, 4000
  local page, dead = call('HSCAN', key, cursor, 'COUNT', math.ceil(PAGE / (#KEYS - 1))), {}
  for place = 1, #page[2], 2 do
    local caller, row = page[2][place], page[2][place + 1]
    local lastSeen = caller == STATE and now or read('d', row, window == 0 and PART_LENGTH - 7 or LAST_SEEN_POSITION)
    if sweptAt - lastSeen >= retention then dead[#dead + 1] = caller elseif lastSeen < oldest then oldest = lastSeen end
  end
  for from = 1, #dead, REMOVED_AT_ONCE do call('HDEL', key, unpack(dead, from, math.min(from + REMOVED_AT_ONCE - 1, #dead))) end
  if dead[1] then found = call('HMGET', key, STATE, unpack(argv, callers + 1, callers + demands)) end
  cursor, isPageDue, checked = page[1] == '0' and ALL_CHECKED or page[1] + 0, true, checked or {}
  checked[key] = true
end
if isSweepDue or isPageDue or isMisdated then
  -- A request after this time would find every row dead.
  expiry, latest, length = serverTime() + retention + SWEEP_INTERVAL, now, window
  call('HSET', key, STATE, pack(STATE_FORMAT, LAYOUT_VERSION, now - time, now, sweptAt, expiry, window, sweeps, oldest, cursor,
    overflowCount, overflowOpened, overflowNonce))
  call('PEXPIREAT', key, expiry)
  call('SADD', KEYS[1], key)
  if call('PTTL', KEYS[1]) < call('PTTL', key) then call('PEXPIREAT', KEYS[1], expiry) end
end
rows = call('HLEN', key) - 1
