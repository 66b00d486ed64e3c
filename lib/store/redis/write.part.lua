-- Writes the fields in `written`, and the state if it has changed or the time in it is more than 100 ms old. This bounds how much longer
-- a window becomes when the server's clock is set back.
local written, size, now, window = quota[WRITTEN], quota[SIZE], quota[NOW], quota[WINDOW]
local expires, lifetime = quota[IS_CLOCK_SET] or window == 0 and now - quota[SWEPT_AT] >= SWEEP_INTERVAL, nil
if expires then
  -- A request after this time would find every row dead.
  lifetime = (window == 0 and LEASE or math.abs(window) + RETENTION_AFTER_WINDOW) + SWEEP_INTERVAL
  quota[EXPIRY] = serverTime() + lifetime
end
if expires or quota[IS_CHANGED] or now - quota[LATEST] >= 100 then
  written[size + 1] = STATE
  written[size + 2] = LAYOUT_VERSION .. pack(STATE_FORMAT, now - time, now, quota[SWEPT_AT], window, quota[EXPIRY], quota[SWEEPS],
    quota[OVERFLOW_COUNT], quota[OVERFLOW_START], quota[OVERFLOW_NONCE], quota[OLDEST], quota[CURSOR])
  size = size + 2
end
if size > 0 then call('HSET', quota[KEY], unpack(written, 1, size)) end
if expires then
  call('PEXPIREAT', quota[KEY], quota[EXPIRY])
  call('SADD', KEYS[1], quota[KEY])
  if call('PTTL', KEYS[1]) < lifetime then call('PEXPIREAT', KEYS[1], quota[EXPIRY]) end
end
