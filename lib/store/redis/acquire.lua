-- Decides on requests of callers of one shard, in order and atomically (docs/scaling.md, "Why the shared store is exact"), and gives back.
-- include layout.part.lua
--
-- KEYS: the shard's register; the hash of each quota. ARGV: the settings, which arguments.ts describes; the callers.
-- Returns for each run of requests and each of its demands the time of the quota, and for each of the requests two integers: the count, or
-- ASK_AGAIN if more rows must be checked before the request can be decided on; and FLAGS times the window, plus 1 if the demand has room,
-- plus 2 for the overflow counter.
local ASK_AGAIN <const>, IS_EXPECTED <const>, GIVES_BACK <const>, IN_OVERFLOW <const> = -1, 1, 2, 1

-- A list is filled in order and begins with a size, because one that grows otherwise takes longer.
local argv, settings, replies, size, isChecked = ARGV, ARGV[1], { nil, nil, nil }, 0, {}
local time, number, cap, runAt = read('ddd', settings, NAME_LENGTH + 1)
local fraction = number % FRACTIONS / FRACTIONS

while runAt < #settings do
  local requests, length, demandsAt = read('dd', settings, runAt)
  -- All requests at once. If one is not admitted, each of them on its own, and then without its costs (a share of 0) if it is not admitted.
  local first, last, share = 1, requests, 1
  while first <= requests do
    local isAdmitted, writes, at = true, { nil, nil, nil }, demandsAt
    for index = 1, length do
      local callers, stride, place, window, kind, most, cost, other
      callers, stride, place, window, kind, most, cost, other, at = read('dddddddd', settings, at)
      local key, slot = KEYS[place], size + (index - 1) * (2 * requests + 1) + 1
      local written, filled = { key, nil, nil }, 1
      local found = call('HMGET', key, STATE, unpack(argv, callers + first, callers + last))
      local state = found[1]
      if not state and kind ~= GIVES_BACK then
        -- include create.part.lua
      end
      if state then
        -- include clock.part.lua
        local isSweepDue, isEachKnown, isChanged = now - sweptAt >= SWEEP_INTERVAL, true, false
        for caller = 2, last - first + 2 do
          if not found[caller] then isEachKnown = false end
        end
        local rows, sweeps, oldest, cursor, overflowCount, overflowWindow
        if isSweepDue or isSetBack or not isEachKnown or kind == GIVES_BACK then
          sweeps, oldest, cursor, overflowCount, overflowWindow = read('ddddd', state, SWEEPS_POSITION)
          if kind ~= GIVES_BACK then
            -- include sweep.part.lua
            if writes[key] then rows, overflowCount, overflowWindow = unpack(writes[key]) end
          end
        end

        replies[slot] = now
        slot = slot + 2 * first - 2
        for request = first, last do
          if stride > 0 then most, cost, other = read('ddd', settings, at + stride * (request - 1) - 24) end
          local row = found[request - first + 2]
          if window == 0 then
            local holder = sub(settings, 1, NAME_LENGTH)
            -- include places.part.lua
            if latestCall ~= number then own = other end
            -- A call is late if a later one has written how many places this process holds.
            local isLate = latestCall and latestCall > number
            local hasRoom = others + own <= most and not isLate
            isAdmitted, own = isAdmitted and hasRoom, own + cost * share
            row = not isLate and parts .. holder .. pack(PART, own, number, now)
            replies[slot + 1] = others + own
            replies[slot + 2] = hasRoom and 1 or 0
          elseif kind == GIVES_BACK then
            local count, opened, lastSeen
            if most == IN_OVERFLOW then
              count, opened = overflowCount, overflowWindow
            elseif row then
              count, opened, lastSeen = read(ROW, row)
            end
            row = nil
            if opened == other then
              count = math.max(0, count - cost)
              if lastSeen then row = pack(ROW, count, opened, lastSeen) else overflowCount, isChanged = count, true end
            end
          else
            local count, opened, flags = 0, NEVER, 0
            if row then
              count, opened = read('dd', row)
            elseif rows < cap then
              rows = rows + 1
            else
              count, opened, flags = overflowCount, overflowWindow, 2
            end
            -- The window is over if it began, or ends, before this.
            local opens = window > 0 and now or other
            if opened < (window > 0 and opens - window + 1 or opens) then count, opened = 0, opens + fraction end
            if count <= most then flags = flags + 1 else isAdmitted = false end
            count = count + cost * share
            if count > LARGEST_COUNT then count = LARGEST_COUNT end
            if flags < 2 then
              row = pack(ROW, count, opened, now)
            elseif cursor == ALL_CHECKED then
              overflowCount, overflowWindow, isChanged = count, opened, true
            else
              isAdmitted, count = false, ASK_AGAIN
            end
            replies[slot + 1] = count > LARGEST_INTEGER and string.format('%.0f', count) or count
            replies[slot + 2] = FLAGS * opened + flags
          end
          slot = slot + 2
          if row then
            written[filled + 1] = argv[callers + request]
            written[filled + 2] = row
            filled = filled + 2
          end
        end

        -- The time in the state bounds how much longer a window becomes when the server's clock is set back.
        if isChanged or now - latest >= 100 and not writes[key] then
          local overflow = overflowCount and sub(state, SWEPT_AT_POSITION, OVERFLOW_POSITION - 1) .. pack('dd', overflowCount, overflowWindow)
          written[filled + 1] = STATE
          written[filled + 2] = pack('ddd', LAYOUT_VERSION, now - time, now) .. (overflow or sub(state, SWEPT_AT_POSITION))
        end
        if rows then writes[key] = { rows, overflowCount, overflowWindow } end
      end
      writes[index], at = written, at + stride * (requests - 1)
    end

    if isAdmitted or share == 0 then
      for index = 1, length do
        if writes[index][2] then call('HSET', unpack(writes[index])) end
      end
      first, last, share = last + 1, last + 1, 1
    elseif first < last then
      last = first
    else
      share = 0
    end
    runAt = at
  end
  size = size + length * (2 * requests + 1)
end
return replies
