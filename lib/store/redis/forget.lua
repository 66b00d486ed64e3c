-- Removes a caller's counter; places stay.
-- include layout.part.lua
--
-- KEYS: the hash of the quota. ARGV: the caller.
local key = KEYS[1]
local state, time = call('HGET', key, STATE), 0
if not state then return 0 end
-- include clock.part.lua
return length == 0 and 0 or call('HDEL', key, ARGV[1])
