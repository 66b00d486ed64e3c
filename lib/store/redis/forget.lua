-- Removes a caller's counter; places stay.
-- include layout.part.lua
--
-- KEYS: the hash of the quota. ARGV: the caller.
local quota, state = { KEYS[1] }, call('HGET', KEYS[1], STATE)
if not state then return 0 end
local time = 0
-- include read-state.part.lua
return quota[WINDOW] == 0 and 0 or call('HDEL', quota[KEY], ARGV[1])
