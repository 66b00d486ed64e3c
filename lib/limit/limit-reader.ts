import type { FastifyBaseLogger } from 'fastify'
import type { Caller } from '../caller/request-caller.js'
import { format } from '../errors.js'
import { logFailure } from '../log.js'
import { isPromise, then, type Eventual } from '../promises.js'
import { required } from '../required.js'
import { effectiveLimit, toInteger, type CallerLimit, type LimitReader } from './limit.js'
import type { Preferences } from './preferences.js'

/** The limit of a quota, as far as its definition and the environment determine it. */
interface ConfiguredLimit {
  /** The name of the quota. */
  readonly name: string
  /** The runtime preference that precedes it. */
  readonly preference: string
  readonly configured: number | CallerLimit
}

/**
 * Returns the function that reads the limit of a quota (docs/rules.md, "Limit"): its preference, or
 * what is configured if that is unset or unavailable.
 */
export function createLimitReader (
  { name, preference, configured }: ConfiguredLimit,
  preferences: Preferences
): LimitReader {
  const preferred = preferences.of(preference, configured)
  const readConfigured =
    typeof configured === 'number'
      ? readNumber(configured)
      : readFunction(configured, name, preferences)
  return function limitOf (request, caller, log) {
    const value = preferred.valueFor(request)
    // Most quotas have no preference, and then nothing more is to be done.
    if (value === undefined) return readConfigured(caller, log)
    return then(value, (set) =>
      set === undefined ? readConfigured(caller, log) : effectiveLimit(set)
    )
  }
}

/** Reads the limit that applies if the preference is unset or unavailable. */
type ConfiguredReader = (
  caller: Caller | null,
  log: FastifyBaseLogger
) => Eventual<number | null>

function readNumber (configured: number): ConfiguredReader {
  const limit = effectiveLimit(configured)
  return () => limit
}

/** @param quota The name of the quota, for the log. */
function readFunction (
  limitOf: CallerLimit,
  quota: string,
  preferences: Preferences
): ConfiguredReader {
  return (caller, log) => {
    function failed (error: unknown): null {
      const message = 'the limit of the caller could not be determined; the request is not counted'
      logFailure(log, error, message, { quota })
      return null
    }
    try {
      const { authentication } = required(caller, 'the caller of a limit that is a function')
      // A host's function can be written in JavaScript, so the compiler has not checked its result.
      const limit: unknown = limitOf(authentication)
      if (!isPromise(limit)) return limitIn(limit)
      return preferences.inTime(limit).then(limitIn).catch(failed)
    } catch (error) {
      return failed(error)
    }
  }
}

/** Returns the limit that a function returned. Throws if it is none. */
function limitIn (value: unknown): number {
  const limit = typeof value === 'number' ? toInteger(value) : undefined
  if (limit === undefined) {
    throw new TypeError(`a limit must be a safe integer; it got ${format(value)}`)
  }
  return effectiveLimit(limit)
}
