import { OptionError, format, formatType } from './errors.js'

/** Throws an `OptionError` if the value is not valid for the option. */
export type Check = (value: unknown, option: string) => void

/** A check for each option. */
export type Checks<Options> = { readonly [Name in keyof Required<Options>]: Check }

/**
 * Throws an `OptionError` unless all options exist and are valid or undefined.
 *
 * @param parent What precedes their names in messages, with a dot at its end.
 */
export function assertOptions<Options> (
  options: unknown,
  checks: Checks<Options>,
  parent = ''
): asserts options is Options & object {
  const known = new Map<string, Check>(Object.entries(checks))
  const formatWithNames = (value: unknown): string =>
    `${formatType(value)}; there are the options ${[...known.keys()].join(', ')}`
  if (!isPlain(options)) {
    const name = parent === '' ? 'options' : parent.slice(0, -1)
    throw new OptionError(name, 'must be a plain object', options, formatWithNames)
  }
  for (const [name, value] of entriesOf(options)) {
    const check = known.get(name)
    if (check === undefined) {
      throw new OptionError(parent + name, 'does not exist', value, formatWithNames)
    }
    if (value !== undefined) check(value, parent + name)
  }
}

/**
 * Whether a value is an object such as a literal, of any realm. What others inherit would be read
 * and not checked, and collections have no properties to check.
 */
export function isPlain (value: unknown): value is object {
  if (!isObject(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** Returns the names and values of an object whose type is not known. */
export function entriesOf (value: object): [name: string, value: unknown][] {
  return Object.entries(value)
}

/** Returns a check of a rule, such as `must be an integer`. */
export function checkThat (
  rule: string,
  isValid: (value: unknown) => boolean,
  formatValue = format
): Check {
  return (value, option) => {
    if (!isValid(value)) throw new OptionError(option, rule, value, formatValue)
  }
}

/** Whether a value is an object and not an array. */
export function isObject (value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a value is a safe integer of at least 0. */
export function isNatural (value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** Whether a value is an object with a function of the given name. */
export function hasFunction (value: unknown, name: string): boolean {
  return isObject(value) && typeof Reflect.get(value, name) === 'function'
}

function acceptAny (): void {}

/** The options that Fastify's `register` itself takes and also passes to the plugin. */
export const registerOptions = { prefix: acceptAny, logLevel: acceptAny, logSerializers: acceptAny }

/** The longest delay that Node's timers support, in milliseconds. */
const longestDelay = 2 ** 31 - 1

export const assertMilliseconds = checkThat(
  `must be a number of milliseconds above 0, at most ${longestDelay}`,
  (value) => typeof value === 'number' && value > 0 && value <= longestDelay
)

export const assertBoolean = checkThat(
  'must be true or false',
  (value) => typeof value === 'boolean'
)

export const assertFunction = checkThat(
  'must be a function',
  (value) => typeof value === 'function'
)

export const assertInteger = checkThat('must be an integer', Number.isSafeInteger)

/** Returns a check that accepts only these values. */
export function oneOf (...accepted: readonly unknown[]): Check {
  const list = accepted.map((each) => `'${each}'`).join(' or ')
  return checkThat(`must be ${list}`, (value) => accepted.includes(value))
}

/** Returns a check that accepts only objects with functions of these names. */
export function withFunctions (what: string, ...names: readonly string[]): Check {
  return (value, option) => {
    for (const name of names) {
      if (!hasFunction(value, name)) {
        throw new OptionError(option, `must be ${what} with a function ${name}`, value, formatType)
      }
    }
  }
}
