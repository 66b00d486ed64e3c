-- Returns 1 if the server evicts keys because its memory is full or nearly full, or if the user may not ask for it; else 0.
-- KEYS: any key, which decides on the node of a cluster.
local NEARLY_FULL = 0.9

local memory = redis.pcall('INFO', 'memory')
if type(memory) ~= 'string' then return 1 end
local most = tonumber(string.match(memory, '\nmaxmemory:(%d+)'))
local used = tonumber(string.match(memory, 'used_memory:(%d+)'))
local policy = string.match(memory, 'maxmemory_policy:([%w-]+)')
return most > 0 and policy ~= 'noeviction' and used >= NEARLY_FULL * most and 1 or 0
