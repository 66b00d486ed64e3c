-- How decide.lua reads and writes places. A place lasts until its time in the places of its holder,
-- and the holder until its time among the holders. What is to be written is collected in commands:
-- `kept` last from now on, whether they are there or not, and `gone` are removed.
local removable = PAGE -- how many that have ended a call removes, at most

local function prolong (kept, name)
  local last = #kept
  kept[last + 1], kept[last + 2] = placesEnd, name
end

-- Returns the names of places that end in a range, as many as may still be removed.
local function placesIn (key, from, to)
  local names = call('ZRANGEBYSCORE', key, from, to, 'LIMIT', 0, removable)
  removable = removable - #names
  return names
end

-- Returns how many of all places last.
local function countLasting (key, all, kept, gone)
  local lasting = call('ZCOUNT', key, '(' .. nowText, placesEnd)
  if lasting == all then return all end
  -- One that has ended can be renewed in this call.
  local isRenewed = #kept > 2
  local ended = isRenewed and {} or placesIn(key, '-inf', nowText)
  for _, name in ipairs(ended) do gone[#gone + 1] = name end
  -- A clock that is set back keeps no place for longer than a place lasts.
  for _, name in ipairs(placesIn(key, '(' .. placesEnd, '+inf')) do prolong(kept, name) end
  return call('ZCOUNT', key, '(' .. nowText, '+inf')
end

-- Returns by how much that changes when the names in ARGV are freed and renewed.
local function changeBy (key, freedAt, renewedAt, lastAt)
  if lastAt < freedAt then return 0 end
  local ends, change = call('ZMSCORE', key, unpack(ARGV, freedAt, lastAt)), 0
  for index = 1, #ends do
    local isLasting = ends[index] and tonumber(ends[index]) > now
    local isFreed = freedAt + index <= renewedAt
    if isFreed and isLasting then change = change - 1 end
    if not isFreed and not isLasting then change = change + 1 end
  end
  return change
end

-- The holder is gone if all of its places are.
local function writePlaces (holder)
  local isKept = #holder.kept > 2
  if isKept then
    call(unpack(holder.kept))
    call('PEXPIRE', holder.key, placeDuration)
    prolong(holder.concurrent.kept, holder.caller)
  end
  local removed = #holder.gone > 2 and call(unpack(holder.gone)) or 0
  if removed > 0 and removed == holder.all and not isKept then
    table.insert(holder.concurrent.gone, holder.caller)
  end
end

local function writeHolders (concurrent)
  if #concurrent.kept > 2 then
    call(unpack(concurrent.kept))
    call('PEXPIRE', concurrent.key, placeDuration)
    local ended = min(call('ZCOUNT', concurrent.key, '-inf', nowText), removable)
    removable = removable - ended
    if ended > 0 then call('ZREMRANGEBYRANK', concurrent.key, 0, ended - 1) end
  end
  if #concurrent.gone > 2 then call(unpack(concurrent.gone)) end
end
