import { hasFunction, OptionError, shownType } from './errors.js'

/** Throws an `OptionError` if the value is not valid for the option. */
export type Check = (value: unknown, option: string) => void

/** A check for each option. */
export type Checks<Options> = { readonly [Name in keyof Required<Options>]: Check }

/**
 * Throws an `OptionError` unless the value is an object whose options all exist and are valid. An option that is undefined is not set.
 *
 * @param parent The text before the name of an option in an error message.
 */
export function assertOptions<Options> (options: unknown, checks: Checks<Options>, parent = ''): asserts options is Options & object {
  const withNames = (value: unknown): string => `${shownType(value)}; there are the options ${Object.keys(checks).join(', ')}`
  if (typeof options !== 'object' || options === null || Array.isArray(options)) throw new OptionError(parent.slice(0, -1) || 'options', 'must be an object', options, withNames)
  for (const [name, value] of Object.entries(options)) {
    const check: Check | undefined = Object.hasOwn(checks, name) ? Reflect.get(checks, name) : undefined
    if (check === undefined) throw new OptionError(parent + name, 'does not exist', value, withNames)
    if (value !== undefined) check(value, parent + name)
  }
}

/** The options that Fastify's `register` itself takes and also passes to the plugin. */
export const registerOptions = { prefix: acceptAny, logLevel: acceptAny, logSerializers: acceptAny }

function acceptAny (): void {}

export function assertBoolean (value: unknown, option: string): void {
  if (typeof value !== 'boolean') throw new OptionError(option, 'must be true or false', value)
}

export function assertFunction (value: unknown, option: string): void {
  if (typeof value !== 'function') throw new OptionError(option, 'must be a function', value)
}

/** Throws an `OptionError` unless the value is a safe integer. */
export function assertInteger (value: unknown, option: string): void {
  if (!Number.isSafeInteger(value)) throw new OptionError(option, 'must be an integer', value)
}

/** Returns a check that accepts only these values. */
export function oneOf (...accepted: readonly string[]): Check {
  return (value, option) => {
    if (!accepted.some((each) => each === value)) throw new OptionError(option, `must be ${accepted.map((each) => `'${each}'`).join(' or ')}`, value)
  }
}

/** Returns a check that accepts only objects with functions of these names. */
export function withFunctions (what: string, ...names: readonly string[]): Check {
  return (value, option) => {
    for (const name of names) if (!hasFunction(value, name)) throw new OptionError(option, `must be ${what} with a function ${name}`, value, shownType)
  }
}

// The longest delay that Node's timers support, in milliseconds.
const longestDelay = 2 ** 31 - 1

/** Throws an `OptionError` unless the value is a delay that a timer can have. */
export function assertMilliseconds (value: unknown, option: string): void {
  if (typeof value !== 'number' || !(value > 0) || value > longestDelay) throw new OptionError(option, `must be a number of milliseconds above 0, at most ${longestDelay}`, value)
}
