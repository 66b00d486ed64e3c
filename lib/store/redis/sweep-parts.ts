import { windowLength, counterRetention as retentionOf, sweepInterval } from '../counter.js'
import {
  clockField, clockFormat, cursorPosition, epochsField, fieldsBesideRows, lastSeenPosition, pageLength, rowLength, sweepField,
  sweepFormat, type TimeSource, updateExpiry
} from './layout.js'

const counterRetention = retentionOf(windowLength)

/** The reply to a decision that needs another round trip. */
export const askAgain = -1

// The number of dead rows that one command removes. Lua's stack holds about 8,000 values.
const removedAtOnce = 4_000

export const readClock = `offset, latest, sweptAt, epochStart = struct.unpack(${clockFormat}, found[1])`

export const packClock = `pack(${clockFormat}, offset, now, sweptAt, epochStart)`

export function sweepWhenDue (timeSource: TimeSource): string {
  return `
if now - sweptAt >= ${sweepInterval} then
  ${readSweep}
  sweptAt = now
  ${startEpoch}
  sweeps, lowest, cursor = sweeps + 1, now, sweptAt - epochs[1] >= ${counterRetention} and '0' or ''
  ${writeSweep}
  ${updateExpiry[timeSource]}
end`
}

// If this field was lost, the progress of the scan is unknown, so the shard starts over.
export const readSweep = `
  local sweep = call('HGET', key, ${sweepField})
  if not sweep then
    call('UNLINK', key)
    return ${askAgain}
  end
  local sweeps, overflowCount, overflowStart, lowest = struct.unpack(${sweepFormat}, sweep)
  local cursor = string.sub(sweep, ${cursorPosition})`

export const writeSweep = `
  call('HSET', key, ${sweepField}, pack(${sweepFormat}, sweeps, overflowCount, overflowStart, lowest) .. cursor)`

export const readEpochs = `
  if not epochs then
    local text = call('HGET', key, ${epochsField})
    if not text then
      call('UNLINK', key)
      return ${askAgain}
    end
    ${unpackEpochs('text')}
  end`

/** Sets `epochs` to a list of the start and the number of rows of each epoch. */
export function unpackEpochs (text: string): string {
  return `
    epochs = { struct.unpack(string.rep('d', #${text} / 8), ${text}) }
    epochs[#epochs] = nil`
}

export const packEpochs = "struct.pack(string.rep('d', #epochs), unpack(epochs))"

/** Subtracts a row from the number of rows of its epoch. */
export const leaveEpoch = `
  local place = 1
  while epochs[place + 2] and epochs[place + 2] <= lastSeen do place = place + 2 end
  epochs[place + 1] = epochs[place + 1] - 1`

// Epochs without rows, and epochs that started 120 s or more before the sweep, are merged with their neighbours. If rows were lost,
// the number of rows in each epoch is unknown, so all rows are counted in the first epoch, whose start is still a lower bound.
export const startEpoch = `
  ${readEpochs}
  local kept, counted = { epochs[1], 0 }, 0
  for place = 1, #epochs, 2 do
    local start, rows = epochs[place], epochs[place + 1]
    counted = counted + rows
    if kept[2] == 0 then
      kept[1], kept[2] = start, rows
    elseif sweptAt - start >= ${counterRetention} then
      kept[2] = kept[2] + rows
    elseif rows > 0 then
      kept[#kept + 1], kept[#kept + 2] = start, rows
    end
  end
  local rows = call('HLEN', key) - ${fieldsBesideRows}
  if rows ~= counted then kept = { epochs[1], rows } end
  if kept[2] == 0 then kept = {} end
  kept[#kept + 1], kept[#kept + 2] = now, 0
  epochs, epochStart, isClockChanged = kept, now, true`

export const scanPage = `
        hasScanned = true
        ${readEpochs}
        local page = call('HSCAN', key, cursor, 'COUNT', ${pageLength})
        local fields, dead = page[2], {}
        for index = 1, #fields, 2 do
          if #fields[index + 1] == ${rowLength} then
            local lastSeen = struct.unpack('d', fields[index + 1], ${lastSeenPosition})
            if sweptAt - lastSeen >= ${counterRetention} then
              dead[#dead + 1] = fields[index]
              ${leaveEpoch}
            elseif lastSeen < lowest then
              lowest = lastSeen
            end
          end
        end
        for first = 1, #dead, ${removedAtOnce} do
          call('HDEL', key, unpack(dead, first, math.min(first + ${removedAtOnce - 1}, #dead)))
        end
        if dead[1] then found = call('HMGET', key, ${clockField}, unpack(ARGV, 2, last)) end
        cursor = page[1]
        if cursor == '0' then
          cursor = ''
          for place = 1, #epochs, 2 do epochs[place] = math.max(epochs[place], lowest) end
        end
        ${writeSweep}`
