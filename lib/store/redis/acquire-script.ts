import { windowLength } from '../counter.js'
import { clockField, epochsField, fieldsBesideRows, firstNow, packedReply, readNow, rowFormat, sweepField, sweepFormat, type TimeSource, updateExpiry } from './layout.js'
import {
  askAgain, leaveEpoch, packClock, packEpochs, readClock, readEpochs, readSweep, scanPage, startEpoch, sweepWhenDue, writeSweep
} from './sweep-parts.js'

// Maximum age of the stored latest time, in milliseconds. It limits how much a step back of the server's clock can lengthen a window.
const clockLag = 100

// Times of the epochs, in milliseconds. The first request to a row in an epoch writes one more field, so epochs must not be too short.
const longestEpoch = 30_000
const pause = 1_000
const shortestEpochBeforePause = 5_000
const firstEpochAfterSweep = 100

// Epochs are short after a sweep and become longer, because under steady load the second sweep after this one decides on the rows
// that were last used at about the same time as this sweep. Requests after a pause get their own epoch, because they are probably
// followed by another pause.
const isEpochOver = `
    now - epochStart >= ${longestEpoch}
    or now - latest >= ${pause} and now - epochStart >= ${shortestEpochBeforePause}
    or epochStart >= sweptAt and now - epochStart >= ${firstEpochAfterSweep} + 8 * (epochStart - sweptAt)`

/**
 * Runs the acquire step for decisions with the same shard and limit, atomically. docs/scaling.md explains why it is exact.
 *
 * KEYS: the shard's hash. ARGV: the limit, the callers, and the time in milliseconds if the store has a clock. Returns
 * `packedReply` or `askAgain` for each decision, or a single `askAgain` for all of them.
 */
export function acquireScript (maxTrackedCallers: number, timeSource: TimeSource): string {
  return `
local key, call, pack = KEYS[1], redis.call, struct.pack
local limit, last = ARGV[1] + 0, ${timeSource === 'server' ? '#ARGV' : '#ARGV - 1'}
local found
if last == 2 then
  found = call('HMGET', key, ${clockField}, ARGV[2])
else
  found = call('HMGET', key, ${clockField}, unpack(ARGV, 2, last))
end
local offset, latest, sweptAt, epochStart, epochs, now
local isClockChanged = false
if found[1] then
  ${readClock}
  ${readNow[timeSource]}
  if now < latest then
    offset, now, isClockChanged = offset + latest - now, latest, true
    ${updateExpiry[timeSource]}
  elseif now - latest >= ${clockLag} then
    isClockChanged = true
  end
  if ${isEpochOver} then
    ${startEpoch}
  end
else
  call('UNLINK', key)
  found, offset, now, isClockChanged = {}, 0, ${firstNow[timeSource]}, true
  -- There was no sweep yet, so this is not the start of a short epoch.
  sweptAt, epochStart, epochs = now, now - 1, { now - 1, 0 }
  call('HSET', key, ${clockField}, '', ${epochsField}, '', ${sweepField}, pack(${sweepFormat}, 0, 0, now - ${windowLength}, now))
  ${updateExpiry[timeSource]}
end
${sweepWhenDue(timeSource)}
local reply
if last == 2 and found[2] then
  local row = found[2]
  ${acquireForTrackedCaller(timeSource)}
  if not isClockChanged and not epochs then
    call('HSET', key, ARGV[2], row)
  elseif not epochs then
    call('HSET', key, ARGV[2], row, ${clockField}, ${packClock})
  else
    call('HSET', key, ARGV[2], row, ${clockField}, ${packClock}, ${epochsField}, ${packEpochs})
  end
  return reply
end

local known, written, replies, hasScanned = {}, {}, {}, false
for index = 2, last do
  local caller = ARGV[index]
  local row = known[caller] or found[index]
  if row then
    ${acquireForTrackedCaller(timeSource)}
    known[caller], written[#written + 1], written[#written + 2] = row, caller, row
  else
    ${acquireForNewCaller(maxTrackedCallers, timeSource)}
  end
  replies[index - 1] = reply
end
if isClockChanged then
  written[#written + 1], written[#written + 2] = ${clockField}, ${packClock}
end
if epochs then
  written[#written + 1], written[#written + 2] = ${epochsField}, ${packEpochs}
end
if written[1] then call('HSET', key, unpack(written)) end
if last == 2 then return reply end
return replies
`
}

function acquireForTrackedCaller (timeSource: TimeSource): string {
  return `
    local count, windowStart, lastSeen = struct.unpack(${rowFormat}, row)
    if lastSeen < epochStart then
      ${readEpochs}
      ${leaveEpoch}
      epochs[#epochs] = epochs[#epochs] + 1
    elseif lastSeen > now then
      offset, now, isClockChanged = offset + lastSeen - now, lastSeen, true
    end
    ${countAndReply(timeSource, '0')}
    row = pack(${rowFormat}, count, windowStart, now)`
}

function countAndReply (timeSource: TimeSource, overflow: '0' | '1'): string {
  return `
    if now - windowStart >= ${windowLength} then count, windowStart = 0, now end
    local admitted = 0
    if count < limit then count, admitted = count + 1, 1 end
    reply = ${packedReply(timeSource, overflow, 'admitted')}`
}

// Below the cap it does not matter which rows are dead, because there are never more tracked callers than rows.
function acquireForNewCaller (maxTrackedCallers: number, timeSource: TimeSource): string {
  return `
    if written[1] then
      call('HSET', key, unpack(written))
      written = {}
    end
    ${readSweep}
    local isFull = call('HLEN', key) - ${fieldsBesideRows} >= ${maxTrackedCallers}
    if isFull and cursor ~= '' and not hasScanned then
      ${scanPage}
      isFull = call('HLEN', key) - ${fieldsBesideRows} >= ${maxTrackedCallers}
    end
    if not isFull then
      local count, windowStart = 0, now
      ${countAndReply(timeSource, '0')}
      row = pack(${rowFormat}, count, windowStart, now)
      known[caller], written[1], written[2] = row, caller, row
      ${readEpochs}
      epochs[#epochs] = epochs[#epochs] + 1
    elseif cursor == '' then
      local count, windowStart = overflowCount, overflowStart
      ${countAndReply(timeSource, '1')}
      overflowCount, overflowStart = count, windowStart
      ${writeSweep}
    else
      reply = ${askAgain}
    end`
}
