-- Returns the number of rows of a quota, and the number of its sweeps.
-- include layout.part.lua
--
-- KEYS: the hash of the quota.
local key = KEYS[1]
local state, time = call('HGET', key, STATE), 0
if not state then return { 0, 0 } end
-- include clock.part.lua
return { call('HLEN', key) - 1, (read('d', state, SWEEPS_POSITION)) }
