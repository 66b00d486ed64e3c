-- Reads `state`, and the quota's time, which does not run backwards. `time` is that of the store's own clock, or not a number
-- for the server's. The time left until a known time tells that at half the cost of TIME.
if sub(state, 1, 1) ~= LAYOUT_VERSION then
  error('VERSION ' .. quota[KEY] .. ' has the layout of another version of this store: use another keyPrefix', 0)
end
quota[OFFSET], quota[LATEST], quota[SWEPT_AT], quota[WINDOW], quota[EXPIRY], quota[SWEEPS],
  quota[OVERFLOW_COUNT], quota[OVERFLOW_START], quota[OVERFLOW_NONCE], quota[OLDEST], quota[CURSOR] = read(STATE_FORMAT, state, 2)
if time ~= time then
  local left = call('PTTL', quota[KEY])
  time = left >= 0 and quota[EXPIRY] - left or serverTime()
  if left < 0 then quota[IS_CLOCK_SET] = true end
end
quota[NOW] = time + quota[OFFSET]
if quota[NOW] < quota[LATEST] then quota[NOW], quota[IS_CLOCK_SET] = quota[LATEST], true end
