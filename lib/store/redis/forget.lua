-- Removes a caller's own counter. Places stay.
-- include layout.part.lua
--
-- ARGV: the name of the quota, that of the row.
local field = 'quota:' .. ARGV[1]
local found = readWindows({ CLOCK_FIELD, field, ARGV[2] })
if not found or not found[2] or not found[3] then return 0 end
local quota = {}
readQuota(quota, found[2])
quota.callers = quota.callers - 1
redis.call('HSET', WINDOWS, field, writeQuota(quota))
return redis.call('HDEL', WINDOWS, ARGV[2])
