-- Reads the `state`, and the quota's time, which does not run backwards. `time` is that of the store's own clock, or not a
-- number for the server's. The time left until a known time tells that at half the cost of TIME.
local version, offset, latest, sweptAt, expiry, length, sweeps, oldest, cursor, overflowCount, overflowOpened, overflowNonce =
  read(#state == STATE_LENGTH and STATE_FORMAT or 'd', state)
if version ~= LAYOUT_VERSION then
  error('VERSION ' .. key .. ' has the layout of another version of this store: use another keyPrefix', 0)
end
local left = call('PTTL', key)
if time ~= time then time = left >= 0 and expiry - left or serverTime() end
-- Whether the key does not expire, or later than it should.
local now, isMisdated = time + offset, left < 0
if now < latest then now, isMisdated = latest, true end
