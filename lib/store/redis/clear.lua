-- Removes what the store has among a page of all keys of the server. Looks at each key of the
-- server, since it is for tests.
--
-- KEYS: what all keys of the store begin with. ARGV: the cursor, 0 for the first page.
-- Returns the cursor of the next page, 0 if this is the last one.
local pattern = KEYS[1]:gsub('[%*%?%[%]\\]', '\\%0') .. '*'
local page = redis.call('SCAN', ARGV[1], 'MATCH', pattern, 'COUNT', 1000)
for _, key in ipairs(page[2]) do redis.call('UNLINK', key) end
return page[1]
