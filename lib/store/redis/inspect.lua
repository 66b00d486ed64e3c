-- Returns the number of rows of a quota, and the number of its sweeps.
-- include layout.part.lua
--
-- KEYS: the hash of the quota.
local quota, state = { key = KEYS[1] }, call('HGET', KEYS[1], STATE)
if not state then return { 0, 0 } end
readState(quota, state, 0)
return { call('HLEN', quota.key) - 1, quota.sweeps }
