-- Removes a caller's counter; places stay.
-- include layout.part.lua
--
-- KEYS: the hash of the quota. ARGV: the caller.
local quota, state = { key = KEYS[1] }, call('HGET', KEYS[1], STATE)
if not state then return 0 end
readState(quota, state, 0)
return quota.window == 0 and 0 or call('HDEL', quota.key, ARGV[1])
