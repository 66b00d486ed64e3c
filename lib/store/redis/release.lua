-- Gives back in windows, and writes how many places this process holds.
-- include layout.part.lua
--
-- KEYS: the shard's register; the hash of each quota. ARGV: the settings, which arguments.ts describes; for each quota the callers of its
-- changes.
local argv = ARGV
local givenTime, holder, number, quotas = unpack(cjson.decode(argv[1]))
local time = timeOf(givenTime)

local at = 1
for index, quota in ipairs(quotas) do
  local held, nonces, amounts, overflows = quota.held, quota.nonces, quota.amounts, quota.overflows
  local changes = #(held or nonces)
  local found = call('HMGET', KEYS[index + 1], STATE, unpack(argv, at + 1, at + changes))
  local changed = {}
  quota.key, quota.written, quota.size = KEYS[index + 1], {}, 0
  if found[1] then
    readState(quota, found[1], time)
  elseif held then
    newState(quota, 0, time)
    found = {}
  end
  -- Without a state there is nothing that was counted.
  for change = 1, quota.now and changes or 0 do
    local caller = argv[at + change]
    local row = changed[caller] or found[change + 1]
    if held then
      local _, parts, _, latestCall = placesOf(row or '', holder, quota.now)
      -- A late call does not undo what a later one has written.
      row = (latestCall or 0) <= number and parts .. holder .. pack(PART, held[change], quota.now + LEASE, number)
    elseif overflows[change] then
      row = nil
      if quota.overflowNonce == nonces[change] then
        quota.overflowCount, quota.isChanged = math.max(0, quota.overflowCount - amounts[change]), true
      end
    elseif row then
      local count, start, lastSeen, nonce = read(ROW, row)
      row = nonce == nonces[change] and pack(ROW, math.max(0, count - amounts[change]), start, lastSeen, nonce)
    end
    if row then
      local written, size = quota.written, quota.size
      changed[caller], written[size + 1], written[size + 2], quota.size = row, caller, row, size + 2
    end
  end
  if quota.size > 0 or quota.isChanged then write(quota, KEYS[1], time) end
  at = at + changes
end
