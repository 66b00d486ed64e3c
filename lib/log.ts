import type { FastifyBaseLogger } from 'fastify'
import { formatType } from './errors.js'

/**
 * Logs a line, without its properties if a serializer throws. A logger that throws neither changes
 * a response nor ends the process.
 */
export function logLine (
  log: FastifyBaseLogger,
  level: 'debug' | 'info' | 'warn' | 'error',
  properties: object,
  message: string
): void {
  try {
    log[level](properties, message)
  } catch {
    try {
      log[level](message)
    } catch {}
  }
}

/** Logs an error line about something that failed. */
export function logFailure (
  log: FastifyBaseLogger,
  error: unknown,
  message: string,
  properties: object = {}
): void {
  logLine(log, 'error', { err: loggableError(error), ...properties }, message)
}

/**
 * Returns an error with only the name, code and message of a thrown value: clients attach commands,
 * keys and passwords to their errors. Never throws.
 */
export function loggableError (thrown: unknown): Error {
  const name = fieldOf(thrown, 'name')
  const code = fieldOf(thrown, 'code')
  const message = fieldOf(thrown, 'message')
  const error: Error & { code?: string | number } = new Error(
    typeof message === 'string' ? message : `${formatType(thrown)} was thrown`
  )
  error.name = typeof name === 'string' ? name : 'Error'
  if (typeof code === 'string' || typeof code === 'number') error.code = code
  // Without frames, which would be those of this function and not of what threw.
  error.stack = `${error.name}: ${error.message}`
  return error
}

function fieldOf (thrown: unknown, field: 'name' | 'code' | 'message'): unknown {
  if ((typeof thrown !== 'object' || thrown === null) && typeof thrown !== 'function') {
    return undefined
  }
  try {
    return Reflect.get(thrown, field)
  } catch {
    // A getter of the error, or a proxy, threw.
    return undefined
  }
}

/** The minimum time between two lines of a kind, in milliseconds. */
const lineInterval = 60_000

/**
 * Logs lines that a client can cause at will: each kind at most once a minute, with `times`, how
 * often it has happened since the line before.
 */
export class MinuteLog {
  readonly #kinds = new Map<string, { loggedAt: number; times: number }>()

  /** @param kind What the lines are about. The number of kinds must not depend on clients. */
  line (
    kind: string,
    log: FastifyBaseLogger,
    level: 'warn' | 'error',
    properties: object,
    message: string
  ): void {
    const now = performance.now()
    const known = this.#kinds.get(kind) ?? { loggedAt: -Infinity, times: 0 }
    known.times += 1
    this.#kinds.set(kind, known)
    if (now - known.loggedAt < lineInterval) return
    const { times } = known
    known.loggedAt = now
    known.times = 0
    const whole = `${message}; this line is logged at most once a minute`
    logLine(log, level, { ...properties, times }, whole)
  }

  /** Logs an error line about something that failed. */
  failure (
    kind: string,
    log: FastifyBaseLogger,
    error: unknown,
    message: string,
    properties: object = {}
  ): void {
    this.line(kind, log, 'error', { err: loggableError(error), ...properties }, message)
  }
}
