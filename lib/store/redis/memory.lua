-- Fails if the server is likely to have evicted counters because its memory is nearly full: it
-- would evict them again and again, and no limit would hold. A server can lose them otherwise, for
-- example when it restarts.
--
-- KEYS: the shard.
local memory = redis.pcall('INFO', 'memory')
if type(memory) ~= 'string' then
  error('EVICTED the server may have evicted the counters, and its user cannot run INFO', 0)
end
local most = tonumber(string.match(memory, '\nmaxmemory:(%d+)'))
local used = tonumber(string.match(memory, 'used_memory:(%d+)'))
local isEvicting = not string.find(memory, 'policy:noeviction', 1, true)
if isEvicting and most > 0 and used / most >= 0.9 then
  error('EVICTED the server has evicted the counters, because its memory is full', 0)
end
return 0
