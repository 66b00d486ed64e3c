-- Cleans a page of places if that is due, so that what is read next has no place without a lease.
-- Returns whether nothing is left to clean (1 or 0).
-- include layout.part.lua
-- include places.part.lua
--
-- ARGV[1]: the time of the store's own clock, negative for the server's.
local found = readWindows({ CLOCK_FIELD, 'cleaning' })
if not found or not found[2] then return 1 end
local now = startClock(readClock(found[1]), tonumber(ARGV[1]))
local places = openPlaces({ process = '', holdings = {} }, found[2], now)
if not places.isCleaningDue() then return 1 end
places.clean()
redis.call('HSET', WINDOWS, 'cleaning', places.cleaningText())
return places.isCleaningDue() and 0 or 1
