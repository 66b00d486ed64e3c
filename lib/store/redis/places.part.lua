-- How decide.lua reads places. A place lasts until its time in the places of its holder. What is to
-- be written is collected in commands: `kept` last from now on, whether they are there or not, and
-- `gone` are removed. Uses `now`, `nowText` and `placesEnd` of decide.lua, and `call` and `PAGE` of
-- layout.part.lua.
local removable = PAGE -- how many that have ended a call removes, at most

local function prolong (kept, name)
  local last = #kept
  kept[last + 1], kept[last + 2] = placesEnd, name
end

-- Returns how many places of a holder last, when those in ARGV from `freedAt` on are freed, and
-- those from `renewedAt` to `lastAt` are renewed. Adds those that have ended to `gone`, and to
-- `kept` those that would last too long.
local function countPlaces (key, kept, gone, freedAt, renewedAt, lastAt)
  local all = call('ZCARD', key)
  if all == 0 then return lastAt - renewedAt + 1 end
  local count = call('ZCOUNT', key, '(' .. nowText, placesEnd)
  if count < all then
    -- One that has ended can be renewed in this call.
    if renewedAt > lastAt then
      local ended = call('ZRANGEBYSCORE', key, '-inf', nowText, 'LIMIT', 0, removable)
      for _, name in ipairs(ended) do gone[#gone + 1] = name end
      removable = removable - #ended
    end
    -- A clock that is set back keeps no place for longer than a place lasts.
    local late = call('ZRANGEBYSCORE', key, '(' .. placesEnd, '+inf', 'LIMIT', 0, removable)
    for _, name in ipairs(late) do prolong(kept, name) end
    removable = removable - #late
    count = call('ZCOUNT', key, '(' .. nowText, '+inf')
  end
  if lastAt < freedAt then return count end
  local ends = call('ZMSCORE', key, unpack(ARGV, freedAt, lastAt))
  for index = 1, #ends do
    local isLasting = ends[index] and tonumber(ends[index]) > now
    local isFreed = freedAt + index <= renewedAt
    if isFreed and isLasting then count = count - 1 end
    if not isFreed and not isLasting then count = count + 1 end
  end
  return count
end
