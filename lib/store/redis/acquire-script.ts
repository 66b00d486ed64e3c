import { counterRetention, sweepInterval } from '../sweep.js'
import { windowLength } from '../window.js'

const microseconds = 1000

// How far the order of last requests may lag behind the counters. A counter is moved up in it at most this often, which
// spares most requests the sorted set; a sweep looks closely at those whose place could be out of date by that much.
const orderLag = 30_000

/** How long a key outlives the last request that could have refreshed it, in milliseconds. */
const expiry = counterRetention + sweepInterval

const window = windowLength * microseconds
const retention = counterRetention * microseconds
const interval = sweepInterval * microseconds
const lag = orderLag * microseconds

// The parts below stand in the script where they are needed, rather than in functions of it: making these on every run
// costs the server more than what most runs do.

const keep = `
  redis.call('PEXPIRE', counters, ${expiry})
  redis.call('PEXPIRE', order, ${expiry})`

const clearAway = (most: number): string => `
  local gone = redis.call('ZRANGEBYSCORE', order, '-inf', sweptAt - ${retention}, 'LIMIT', 0, ${most})
  if #gone > 0 then
    redis.call('HDEL', counters, unpack(gone))
    redis.call('ZREM', order, unpack(gone))
  end`

const putInOrder = `
  local oldest = sweptAt - ${retention}
  local unsure = redis.call('ZRANGEBYSCORE', order, '(' .. string.format('%.0f', oldest - ${lag}), oldest)
  for first = 1, #unsure, 1000 do
    local part = {unpack(unsure, first, math.min(first + 999, #unsure))}
    for place, packed in ipairs(redis.call('HMGET', counters, unpack(part))) do
      if packed then
        local _, _, lastSeen = struct.unpack('I4ddd', packed)
        if lastSeen > oldest then redis.call('ZADD', order, lastSeen, part[place]) end
      end
    end
  end`

/**
 * The acquire step of section 3, whole and atomic, for one shard.
 *
 * KEYS: a hash of the shard's counters by caller, with the fields `overflow` and `sweep` beside them, and a sorted set of
 * the callers by last request. ARGV: caller, limit, cap, and in tests the time in microseconds.
 *
 * A sweep writes down its time and removes a bounded number of counters; those it leaves are known by their last request
 * to be gone, and are cleared away by the requests that follow. Nothing here takes time that grows with all callers.
 *
 * The server's clock can step back, unlike a monotonic one: a counter then ages from its last request on, so that its
 * window ends no later than it would have.
 */
export const acquireScript = `
local counters, order, caller = KEYS[1], KEYS[2], ARGV[1]
local now = ARGV[4]
if now then
  now = tonumber(now)
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local found = redis.call('HMGET', counters, caller, 'sweep')
local sweptAt, sweeps = now, 0
if found[2] then sweptAt, sweeps = struct.unpack('dd', found[2]) end
local sinceSweep = now - sweptAt
if sinceSweep >= ${interval} or sinceSweep < 0 or not found[2] then
  sweptAt = now
  if sinceSweep >= ${interval} then
    sweeps = sweeps + 1
${putInOrder}
${clearAway(1000)}
  end
  redis.call('HSET', counters, 'sweep', struct.pack('dd', sweptAt, sweeps))
${keep}
end

local field, overflow, count, windowStart, lastSeen, placedAt = caller, 0
if found[1] then
  count, windowStart, lastSeen, placedAt = struct.unpack('I4ddd', found[1])
  if lastSeen <= sweptAt - ${retention} then count = nil end
end
if not count then
${clearAway(100)}
  local untracked = redis.call('ZCOUNT', order, '-inf', sweptAt - ${retention})
  count, windowStart, lastSeen, placedAt = 0, now, now, nil
  if redis.call('ZCARD', order) - untracked >= tonumber(ARGV[3]) then
    field, overflow = 'overflow', 1
    local packed = redis.call('HGET', counters, field)
    if packed then count, windowStart, lastSeen = struct.unpack('I4ddd', packed) end
  end
end

if lastSeen > now then windowStart = windowStart - (lastSeen - now) end
if now - windowStart >= ${window} then count, windowStart = 0, now end
local admitted = 0
if count < tonumber(ARGV[2]) then count, admitted = count + 1, 1 end

if overflow == 0 and (not placedAt or now - placedAt >= ${lag} or now < placedAt) then
  redis.call('ZADD', order, now, caller)
  if not placedAt then
${keep}
  end
  placedAt = now
end
redis.call('HSET', counters, field, struct.pack('I4ddd', count, windowStart, now, placedAt or now))
return {admitted, count, windowStart + ${window} - now, overflow}
`

/** Tells how many callers of a shard have a counter, and how many sweeps there have been. KEYS as above. */
export const inspectScript = `
local packed = redis.call('HGET', KEYS[1], 'sweep')
if not packed then return {0, 0} end
local sweptAt, sweeps = struct.unpack('dd', packed)
local gone = redis.call('ZCOUNT', KEYS[2], '-inf', sweptAt - ${retention})
return {redis.call('ZCARD', KEYS[2]) - gone, sweeps}
`
