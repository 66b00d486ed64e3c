// The parts of the acquire script that maintain a shard's own fields: the clock, the marks, and the sweep with its scan.
import { counterRetention, sweepInterval } from '../sweep.js'
import {
  clockField, clockFormat, cursorPosition, fieldsBesideRows, lastSeenPosition, marksField, marksFormat, pageLength, renewExpiry, rowLength,
  sweepField, sweepFormat, type TimeSource
} from './layout.js'

/** The reply to a decision that needs another round trip. */
export const askAgain = -1

// The number of dead rows that one command removes. Lua's stack holds about 8,000 values.
const removedAtOnce = 4_000

export const readClock = `offset, latest, sweptAt, mark = struct.unpack(${clockFormat}, found[1])`

export function sweepWhenDue (timeSource: TimeSource): string {
  return `
if now - sweptAt >= ${sweepInterval} then
  ${readSweep}
  sweptAt, isClockChanged = now, true
  ${renewMark}
  sweeps, lowest, cursor = sweeps + 1, now, sweptAt - oldest >= ${counterRetention} and '0' or ''
  ${writeSweep}
  ${renewExpiry[timeSource]}
end`
}

// If this field was lost, the progress of the scan is unknown, so the shard starts again.
export const readSweep = `
  local sweep = call('HGET', key, ${sweepField})
  if not sweep then
    call('UNLINK', key)
    return ${askAgain}
  end
  local sweeps, overflowCount, overflowStart, lowest = struct.unpack(${sweepFormat}, sweep)
  local cursor = string.sub(sweep, ${cursorPosition})`

export const packClock = `pack(${clockFormat}, offset, now, sweptAt, mark)`

export const packMarks = `pack(${marksFormat}, oldest, marked, tracked)`

export const readMarks = `
  if not marked then
    local marks = call('HGET', key, ${marksField})
    if not marks then
      call('UNLINK', key)
      return ${askAgain}
    end
    oldest, marked, tracked = struct.unpack(${marksFormat}, marks)
  end`

// If every row was used since the mark, the mark is a lower bound of all rows' last requests, and a sweep can tell without a scan
// that no row is dead. If rows were lost, counting starts again.
export const renewMark = `
  ${readMarks}
  isClockChanged = true
  if call('HLEN', key) - ${fieldsBesideRows} ~= tracked then
    mark, marked, tracked = now, 0, call('HLEN', key) - ${fieldsBesideRows}
  elseif marked == tracked then
    oldest, mark, marked = math.max(oldest, mark), now, 0
  end`

export const writeSweep = `
  call('HSET', key, ${sweepField}, pack(${sweepFormat}, sweeps, overflowCount, overflowStart, lowest) .. cursor)`

export const scanPage = `
        hasScanned = true
        ${readMarks}
        local page = call('HSCAN', key, cursor, 'COUNT', ${pageLength})
        local fields, dead = page[2], {}
        for place = 1, #fields, 2 do
          if #fields[place + 1] == ${rowLength} then
            local lastSeen = struct.unpack('d', fields[place + 1], ${lastSeenPosition})
            if sweptAt - lastSeen >= ${counterRetention} then
              dead[#dead + 1] = fields[place]
              if lastSeen >= mark then marked = marked - 1 end
            elseif lastSeen < lowest then
              lowest = lastSeen
            end
          end
        end
        for first = 1, #dead, ${removedAtOnce} do
          call('HDEL', key, unpack(dead, first, math.min(first + ${removedAtOnce - 1}, #dead)))
        end
        if dead[1] then found = call('HMGET', key, ${clockField}, unpack(ARGV, 2, last)) end
        cursor, tracked = page[1], tracked - #dead
        if cursor == '0' then cursor, oldest = '', math.max(oldest, lowest) end
        ${writeSweep}`
