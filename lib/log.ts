import type { FastifyBaseLogger } from 'fastify'
import { shown } from './errors.js'

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
export const logFailure = (
  log: FastifyBaseLogger,
  error: unknown,
  message: string,
  properties: object = {}
): void => logLine(log, 'error', { err: shownError(error), ...properties }, message)

/**
 * Returns an error with only the name, code and message of a thrown value: clients attach commands,
 * keys and passwords to their errors.
 */
export function shownError (thrown: unknown): Error {
  let name: unknown, code: unknown, message: unknown
  try {
    ;({ name, code, message } = Object(thrown))
  } catch {} // A getter of the error threw.
  const error = Object.assign(
    new Error(typeof message === 'string' ? message : `${shown(thrown)} was thrown`),
    {
      name: typeof name === 'string' ? name : 'Error',
      ...((typeof code === 'string' || typeof code === 'number') && { code })
    }
  )
  // The frames are those of this function.
  error.stack = `${error.name}: ${error.message}`
  return error
}
