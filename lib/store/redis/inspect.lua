-- Returns the number of rows of a quota, and the number of its sweeps.
-- include layout.part.lua
--
-- KEYS: the hash of the quota.
local quota, state = { KEYS[1] }, call('HGET', KEYS[1], STATE)
if not state then return { 0, 0 } end
local time = 0
-- include read-state.part.lua
return { call('HLEN', quota[KEY]) - 1, quota[SWEEPS] }
