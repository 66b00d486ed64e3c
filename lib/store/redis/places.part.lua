-- Splits a `row` of places: how many the other processes hold, and their parts; how many `holder` has, and the call that wrote it.
local others, parts, own, latestCall = 0, '', 0, nil
for position = 1, row and #row or 0, PART_LENGTH do
  local name, held, writtenBy, writtenAt = read(PART, row, position)
  if name == holder then
    own, latestCall = held, writtenBy
  elseif now - writtenAt < LEASE then
    others, parts = others + held, parts .. sub(row, position, position + PART_LENGTH - 1)
  end
end
