import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { Eventual } from '../promises.js'
import type { LimitName } from './limit-kinds.js'

/**
 * The limit of a quota for one request:
 *
 * - a safe integer above 0: how much can be counted in a window, or at the same time;
 * - 0, only from a function of the caller: nothing is left, so each request is rejected;
 * - `Infinity`, only from a function of the caller: everything has room, and is counted;
 * - `disabled`: the quota neither counts nor refuses, and needs no caller;
 * - `failed`: the function of the caller failed, which has been logged.
 */
export type ReadLimit = number | 'disabled' | 'failed'

/**
 * Reads the limit of a quota. Neither throws nor rejects.
 *
 * @param request Null for a permit without a request.
 * @param caller Only needed if the limit is a function of the caller.
 * @returns The limit. A promise only if something of the host's returned one.
 */
export type LimitReader<Caller> = (
  request: FastifyRequest | null,
  caller: Caller | null,
  log: FastifyBaseLogger
) => Eventual<ReadLimit>

/**
 * The host's function of the limit of a caller. It can be written in JavaScript, so the compiler
 * has not checked its result.
 */
export type LimitOfCaller<Caller> = (caller: Caller) => unknown

/**
 * The default limit of the default quota and of a quota without a limit, in requests per minute
 * (docs/rules.md, "Limit").
 */
export const defaultPerMinute = 10

/**
 * The environment variable that holds the configured limit of the default quota (docs/rules.md,
 * "Limit").
 */
export const perMinuteVariable = 'SERVICE_RATE_LIMIT_PER_MINUTE'

/**
 * Returns the runtime preference that holds a limit. `quota` is undefined for the default quota.
 */
export function preferenceOf (limit: LimitName, quota?: string): string {
  const name = limit.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`)
  return quota === undefined ? `rate-limit.${name}` : `rate-limit.${quota}.${name}`
}

/**
 * Returns the environment variable that holds the configured limit of a quota, whose preference has
 * almost the same name.
 */
export function variableOf (preference: string): `SERVICE_RATE_LIMIT_${string}` {
  const name = preference.replace('rate-limit.', '').replaceAll(/[.-]/g, '_')
  return `SERVICE_RATE_LIMIT_${name.toUpperCase()}`
}

/**
 * Returns the effective limit of a preference, a variable or a number in a definition
 * (docs/rules.md, "Limit"). A negative number is a mistake and becomes 1.
 */
export function effectiveLimit (integer: number): number | 'disabled' {
  if (integer === 0) return 'disabled'
  return integer < 0 ? 1 : integer
}

/**
 * Returns a safe integer, or a string that contains one in decimal notation, as a number; undefined
 * for any other value. Never rounds.
 */
export function toInteger (value: unknown): number | undefined {
  const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number)) return undefined
  // Adding 0 turns -0 into 0.
  return number + 0
}
