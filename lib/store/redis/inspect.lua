-- Reads how many callers of a quota have a row or places, and how often the quota has swept.
-- include layout.part.lua
--
-- ARGV: the name of the quota.
local found = readWindows({ CLOCK_FIELD, 'quota:' .. ARGV[1] })
if not found then return { 0, 0 } end
if not found[2] then
  return { tonumber(redis.call('HGET', PLACES, 'callers ' .. ARGV[1]) or 0), 0 }
end
local quota = {}
readQuota(quota, found[2])
return { quota.callers, quota.sweeps }
