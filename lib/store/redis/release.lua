-- Gives back in windows, and writes how many places this process holds.
-- include layout.part.lua
-- include places.part.lua
--
-- KEYS: the shard's register; the hash of each quota. ARGV: the settings, which arguments.ts describes; the callers of the changes.
local argv, settings, first = ARGV, ARGV[1], 2
local time, number, at = read('dd', settings, NAME_LENGTH + 1)

for index = 2, #KEYS do
  local isInFlight, changes
  isInFlight, changes, at = read('dd', settings, at)
  local quota = { KEYS[index], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false, { nil, nil }, 0 }
  local found = call('HMGET', quota[KEY], STATE, unpack(argv, first, first + changes - 1))
  local state = found[1]
  if state then
    -- include read-state.part.lua
  elseif isInFlight == 1 then
    -- include create-state.part.lua
    found = {}
  end
  local changed, now = {}, (state or isInFlight == 1) and quota[NOW]
  for place = 2, changes + 1 do
    local nonce, amount, isOverflow
    nonce, amount, isOverflow, at = read('ddd', settings, at)
    local caller = argv[first + place - 2]
    local row = changed[caller] or found[place]
    -- Without a state there is nothing that was counted.
    if isInFlight == 1 then
      local holder = sub(settings, 1, NAME_LENGTH)
      local _, parts, _, latestCall = placesOf(row or '', holder, now)
      -- A late call does not undo what a later one has written.
      row = (latestCall or 0) <= number and parts .. holder .. pack(PART, amount, now + LEASE, number)
    elseif isOverflow == 1 then
      row = nil
      if now and quota[OVERFLOW_NONCE] == nonce then
        quota[OVERFLOW_COUNT], quota[IS_CHANGED] = math.max(0, quota[OVERFLOW_COUNT] - amount), true
      end
    elseif row then
      local count, start, lastSeen, ownNonce = read(ROW, row)
      row = now and ownNonce == nonce and pack(ROW, math.max(0, count - amount), start, lastSeen, nonce)
    end
    if row then
      local written, size = quota[WRITTEN], quota[SIZE]
      written[size + 1] = caller
      written[size + 2] = row
      changed[caller], quota[SIZE] = row, size + 2
    end
  end
  if quota[SIZE] > 0 or quota[IS_CHANGED] then
    -- include write.part.lua
  end
  first = first + changes
end
