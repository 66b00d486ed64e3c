// What the functions of schema.sql return, as the store knows it.
import type { Call, Decided, Reply } from '../shared/driver.js'
import { unstoredName } from '../shared/stored-names.js'
import type { CallerCount, CallerPage, Demand, QuotaCount } from '../store.js'
import { readFields, type Fields } from './fields.js'

export function readReply (text: string | null, { requests, standings }: Call): Reply {
  const fields = readFields(text)
  const decided = fields.list('decided')
  const found = fields.list('standings')
  return {
    period: fields.number('period'),
    applied: fields.list('applied').allBooleans(),
    decided: requests.map(({ demands }) =>
      demands.map((demand) => readDecided(decided.nextFields(), demand))
    ),
    standings: standings.map((demand) => {
      const count = found.nextFieldsOrNull()
      return count === null ? null : readCount(count, demand)
    })
  }
}

function readDecided (fields: Fields, demand: Demand): Decided {
  return {
    admitted: fields.boolean('hasRoom'),
    granted: fields.number('granted'),
    ...readCount(fields, demand),
    windowId: fields.number('windowId')
  }
}

function readCount (
  fields: Fields,
  { window, end }: Demand
): QuotaCount & { readonly overflow: boolean } {
  const count = fields.number('count')
  const held = fields.number('held')
  const overflow = fields.boolean('overflow')
  if (window === null) return { count, held, windowRemaining: null, overflow }
  if (end === null) return { count, held, windowRemaining: fields.number('rest'), overflow }
  return { count, held, windowRemaining: null, end: fields.number('end'), overflow }
}

export function readPage (text: string | null): CallerPage {
  const fields = readFields(text)
  return {
    callers: fields.list('callers').allFields().map(readCaller),
    cursor: fields.textOrNull('cursor')
  }
}

function readCaller (fields: Fields): CallerCount {
  const end = fields.numberOrNull('end')
  return {
    callerKey: unstoredName(fields.text('caller')),
    count: fields.number('count'),
    held: fields.number('held'),
    windowRemaining: end === null ? fields.numberOrNull('rest') : null,
    ...(end !== null && { end })
  }
}
