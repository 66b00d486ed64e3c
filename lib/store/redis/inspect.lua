-- Returns the number of rows in the counters of a shard, and the number of its sweeps, as text. acquire.lua describes the hash.
-- KEYS: the counters of the shard.
local STATE, SWEEP, SWEEP_POSITION = '\255', 'd', 25

local state = redis.call('HGET', KEYS[1], STATE)
if not state then return '0 0' end
return string.format('%.0f %.0f', redis.call('HLEN', KEYS[1]) - 1, struct.unpack(SWEEP, state, SWEEP_POSITION))
