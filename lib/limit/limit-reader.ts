import type { FastifyBaseLogger } from 'fastify'
import { format, formatType } from '../errors.js'
import { MinuteLog } from '../log.js'
import { isPromise, then, type Eventual } from '../promises.js'
import { required } from '../required.js'
import { effectiveLimit, type LimitOfCaller, type LimitReader, type ReadLimit } from './limit.js'
import type { Preferences } from './preferences.js'

/** The limit of a quota, as far as its definition and the environment determine it. */
interface ConfiguredLimit<Caller> {
  /** The name of the quota. */
  readonly name: string
  /** The runtime preference that precedes it. */
  readonly preference: string
  readonly configured: number | LimitOfCaller<Caller>
}

/**
 * Creates the function that reads the limit of a quota (docs/rules.md, "Limit"): its preference, or
 * what is configured if that is unset or unavailable.
 */
export function createLimitReader<Caller> (
  { name, preference, configured }: ConfiguredLimit<Caller>,
  preferences: Preferences
): LimitReader<Caller> {
  if (typeof configured === 'number') {
    const preferred = preferences.of(preference, configured)
    const limit = effectiveLimit(configured)
    return function limitOf (request) {
      // Most services have no reader of preferences, and then nothing more is to be done.
      if (preferences.reader === undefined) return limit
      return then(preferred.valueFor(request), (set) =>
        set === undefined ? limit : effectiveLimit(set)
      )
    }
  }
  const preferred = preferences.of(preference, format(configured))
  const readConfigured = readFunction(configured, name, preferences)
  return function limitOfCaller (request, caller, log) {
    return then(preferred.valueFor(request), (set) =>
      set === undefined ? readConfigured(caller, log) : effectiveLimit(set)
    )
  }
}

/** @param quota The name of the quota, for the log. */
function readFunction<Caller> (
  limitOf: LimitOfCaller<Caller>,
  quota: string,
  preferences: Preferences
): (caller: Caller | null, log: FastifyBaseLogger) => Eventual<ReadLimit> {
  const failures = new MinuteLog()
  return (caller, log) => {
    function failed (error: unknown): 'failed' {
      const message = 'the limit of the caller could not be determined; the request is not counted'
      failures.failure('limit', log, error, message, { quota })
      return 'failed'
    }
    try {
      const limit = limitOf(required(caller, 'the caller of a limit that is a function'))
      if (!isPromise(limit)) return limitIn(limit)
      return preferences.inTime(limit).then(limitIn).catch(failed)
    } catch (error) {
      return failed(error)
    }
  }
}

/**
 * Returns the limit that a function returned: what the caller may use, so that nothing is left at 0
 * or below. Throws if it is none, such as the null of a database.
 */
function limitIn (value: unknown): number {
  const isLimit = typeof value === 'number' && (Number.isSafeInteger(value) || value === Infinity)
  if (isLimit) return Math.max(0, value)
  throw new TypeError(`a limit must be a safe integer or Infinity; it got ${formatType(value)}`)
}
