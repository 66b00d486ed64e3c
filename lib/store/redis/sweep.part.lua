-- The sweep, and what it needs of a shard that is new or has been lost.

-- Looks at a page of rows, and removes those that a sweep of their quota has found dead, and quotas
-- that have expired, with their rows. Rows are named `<quota> <caller>`, and quotas
-- `quota:<quota>`. The quotas of the call are changed, and the others written.
--
-- Returns whether something was removed.
local function checkPage (clock, quotas)
  local byName = {}
  for _, quota in ipairs(quotas) do byName[quota.name] = quota.retention and quota or nil end
  local others = {}
  local function quotaNamed (name)
    if byName[name] == nil then
      local text = redis.call('HGET', WINDOWS, 'quota:' .. name)
      byName[name] = false
      if text then
        local quota = { name = name }
        readQuota(quota, text)
        byName[name] = quota
        others[#others + 1] = quota
      end
    end
    return byName[name]
  end

  local page = redis.call('HSCAN', WINDOWS, math.max(clock.cursor, 0), 'COUNT', PAGE)
  local dead = {}
  for index = 1, #page[2], 2 do
    local field = page[2][index]
    local space = string.find(field, ' ', 1, true)
    if space then
      local quota = quotaNamed(string.sub(field, 1, space - 1))
      local lastSeen = struct.unpack('d', page[2][index + 1], LAST_SEEN_POSITION)
      if not quota then
        dead[#dead + 1] = field
      elseif quota.expires < clock.serverTime or quota.sweptAt - lastSeen >= quota.retention then
        dead[#dead + 1] = field
        quota.callers = quota.callers - 1
        quota.isChanged = true
      end
    elseif string.sub(field, 1, 6) == 'quota:' then
      local quota = quotaNamed(string.sub(field, 7))
      -- A quota that is used again while others of its rows are left still counts them.
      if quota.expires < clock.serverTime and quota.callers <= 0 then dead[#dead + 1] = field end
    end
  end

  for _, quota in ipairs(others) do
    if quota.isChanged then
      redis.call('HSET', WINDOWS, 'quota:' .. quota.name, writeQuota(quota))
    end
  end
  -- Lua's stack holds about 8,000 values.
  for first = 1, #dead, 4000 do
    redis.call('HDEL', WINDOWS, unpack(dead, first, math.min(first + 3999, #dead)))
  end
  clock.cursor = tonumber(page[1])
  if clock.cursor == 0 then
    clock.cursor = NO_PASS
    clock.passes = clock.passes + 1
  end
  return #dead > 0
end

-- A server that evicts a shard when its memory is nearly full would do so again and again. Any
-- server can lose one, for example when it restarts.
local function assertNotEvicted ()
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
end
