import { inspect } from 'node:util'

const longest = 100

/** Formats a value for an error message or a log line. The result is shortened and has only one line. */
export function shown (value: unknown): string {
  return shortened(inspected(value))
}

/** The properties of an error that are logged. */
export interface ShownError {
  readonly name: string
  readonly code?: string | number
  readonly message: string
}

/**
 * Returns the name, code and message of an error for a log line. No other property is logged, because Redis clients attach
 * commands, keys and passwords to their errors.
 *
 * @param thrown The value that was thrown, which may not be an error.
 */
export function shownError (thrown: unknown): ShownError {
  try {
    if (typeof thrown !== 'object' || thrown === null) return shownAs(typeof thrown, undefined, shown(thrown))
    const { name, code, message } = Object(thrown)
    return shownAs(name, code, typeof message === 'string' ? message : 'an object without a message was thrown')
  } catch {
    return shownAs(undefined, undefined, 'an error whose properties cannot be read was thrown')
  }
}

// Without a prototype, pino's error serializer uses the name as the error's type.
function shownAs (name: unknown, code: unknown, message: string): ShownError {
  return Object.assign(Object.create(null), {
    name: typeof name === 'string' ? name : 'Error',
    ...((typeof code === 'string' || typeof code === 'number') && { code }),
    message
  })
}

function inspected (value: unknown): string {
  try {
    return inspect(value, { depth: 1, breakLength: Infinity })
  } catch {
    return `a value of type ${typeof value} that cannot be inspected`
  }
}

function shortened (text: string): string {
  return text.length > longest ? `${text.slice(0, longest)}…` : text
}
