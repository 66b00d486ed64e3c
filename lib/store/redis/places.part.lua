-- Splits a row of places: how many other processes hold and their parts, and how many this process holds and the call that wrote it.
local function placesOf (row, holder, now)
  local others, parts, own, latestCall = 0, '', 0, nil
  for first = 1, #row, PART_LENGTH do
    local held, leaseEnd, number = read(PART, row, first + NAME_LENGTH)
    if sub(row, first, first + NAME_LENGTH - 1) == holder then
      own, latestCall = held, number
    elseif leaseEnd > now then
      others, parts = others + held, parts .. sub(row, first, first + PART_LENGTH - 1)
    end
  end
  return others, parts, own, latestCall
end
