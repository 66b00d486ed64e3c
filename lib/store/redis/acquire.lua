-- Decides on requests of callers of one shard, in order and atomically (docs/scaling.md, "Why the shared store is exact"), and gives back.
-- include layout.part.lua
--
-- KEYS: the shard's register; the hash of each quota. ARGV: the settings, which arguments.ts describes; the callers.
-- Returns for each run of requests and each of its demands the time of the quota, and for each of the requests two integers: the count, or
-- ASK_AGAIN if more rows must be checked before the request can be decided on; and the flags, which are 1 if the demand has room plus 2 for
-- the overflow counter, plus FLAGS times the nonce of the window, plus FLAGS * NONCES times its age, which for a window with an end is how
-- much later than the demand's end it ends.
local ASK_AGAIN <const>, IS_EXPECTED <const>, GIVES_BACK <const>, IN_OVERFLOW <const> = -1, 1, 2, 1

-- A list is filled in order and begins with a size, because one that grows otherwise takes longer.
local argv, settings, replies, size, checked = ARGV, ARGV[1], { nil, nil, nil }, 0, nil
local holder, time, number, cap, runAt = read('c16ddd', settings)

while runAt < #settings do
  local columns, demandsAt = read('d', settings, runAt)
  -- Those that the previous pass has found to be without room are not counted. A pass is wrong if one of them has room now, or if it has
  -- counted a part of another that has no room. Then the next pass is right about at least one request more.
  local rejected
  repeat
    local without, isWrong, writes, at, slot = nil, false, { nil, nil, nil }, demandsAt, size
    for index = 1, columns do
      local callers, demands, stride, place, window, kind, most, cost, other, request, earlier
      callers, demands, stride, place, window, kind, most, cost, other, request, at = read('dddddddddd', settings, at)
      local key = KEYS[place]
      local written, filled = { key, nil, nil }, 1
      local found = call('HMGET', key, STATE, unpack(argv, callers + 1, callers + demands))
      local state = found[1]
      if not state and kind ~= GIVES_BACK then
        -- include create.part.lua
      end
      -- Without a state, there is nothing to give back to.
      if state then
        -- include clock.part.lua
        local isSweepDue, isEachKnown, isChanged = now - sweptAt >= SWEEP_INTERVAL, true, false
        for caller = 2, demands + 1 do isEachKnown = isEachKnown and found[caller] end
        local rows, overflowBefore, overflowRequest
        if kind ~= GIVES_BACK and (isSweepDue or isMisdated or cursor ~= ALL_CHECKED or not isEachKnown) then
          -- include sweep.part.lua
        end

        -- When a window opens that begins now. One that began before `over`, or ends before its end, is over.
        local opens, over, base = now, now - window + 1, now
        slot = slot + 1
        replies[slot] = now
        for demand = 1, demands do
          if stride > 0 then most, cost, other, request = read('dddd', settings, at + stride * (demand - 1) - 32) end
          local row, hasRoom = found[demand + 1], true
          local isRejected = without and without[request] or rejected and rejected[request]
          if window == 0 then
            -- include places.part.lua
            if latestCall ~= number then own = other end
            -- A call is late if a later one has written how many places this process holds.
            local isLate = latestCall and latestCall > number
            hasRoom = others + own <= most and not isLate
            if hasRoom and not isRejected then own = own + cost end
            row = not isLate and pack(PART, holder, own, number, now) .. parts
            replies[slot + 1] = others + own
            replies[slot + 2] = hasRoom and 1 or 0
          elseif kind == GIVES_BACK then
            if most == IN_OVERFLOW then
              local isOpen = overflowOpened % TIMES * NONCES + overflowNonce == other
              if isOpen then overflowCount, isChanged = math.max(0, overflowCount - cost), true end
              row = nil
            elseif row then
              local count, opened, nonce, lastSeen = read(ROW, row)
              row = opened % TIMES * NONCES + nonce == other and pack(ROW, math.max(0, count - cost), opened, nonce, lastSeen)
            end
          else
            local count, opened, nonce, flags = 0, NEVER, 0, 0
            if row then count, opened, nonce = read('ddd', row)
            elseif rows < cap then rows = rows + 1
            else count, opened, nonce, flags = overflowCount, overflowOpened, overflowNonce, 2 end
            if window < 0 then opens, over, base = other, other, other end
            if opened < over then count, opened, nonce = 0, opens, number % NONCES end
            local before, isKnown = count, flags == 0 or cursor == ALL_CHECKED
            if flags > 0 then
              -- Room is what there was before the request, of which two callers can use the overflow counter.
              if request ~= overflowRequest then overflowRequest, overflowBefore = request, count end
              before = overflowBefore
            end
            hasRoom = before <= most and isKnown
            if hasRoom and not isRejected then count = count + cost end
            if hasRoom then flags = flags + 1 end
            if count > LARGEST_COUNT then count = LARGEST_COUNT end
            if flags < 2 then row = pack(ROW, count, opened, nonce, now)
            elseif isKnown then overflowCount, overflowOpened, overflowNonce, isChanged = count, opened, nonce, true
            else count = ASK_AGAIN end
            replies[slot + 1] = count > LARGEST_INTEGER and string.format('%.0f', count) or count
            replies[slot + 2] = ((window < 0 and opened - base or base - opened) * NONCES + nonce) * FLAGS + flags
          end
          if kind < GIVES_BACK then slot = slot + 2 end
          if not hasRoom then
            isWrong = isWrong or not isRejected and (index > 1 or request == earlier)
            without = without or {}
            without[request] = true
          end
          earlier, request = request, request + 1
          if row then
            written[filled + 1] = argv[callers + demand]
            written[filled + 2] = row
            filled = filled + 2
          end
        end

        -- With the latest time, no window becomes longer when the server's clock is set back.
        if isChanged or now > latest then
          written[filled + 1] = STATE
          written[filled + 2] = pack(STATE_FORMAT, LAYOUT_VERSION, now - time, now, sweptAt, expiry, length, sweeps, oldest, cursor,
            overflowCount, overflowOpened, overflowNonce)
        end
      end
      writes[index], at = written, at + stride * (demands - 1)
    end

    if rejected then for request in pairs(rejected) do isWrong = isWrong or not (without and without[request]) end end
    rejected = without
    if not isWrong then
      for index = 1, columns do
        if writes[index][2] then call('HSET', unpack(writes[index])) end
      end
      size, runAt = slot, at
    end
  until not isWrong
end
return replies
