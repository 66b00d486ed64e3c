import { OptionError, shown, shownType } from './errors.js'

/** Throws an `OptionError` if the value is not valid for the option. */
export type Check = (value: unknown, option: string) => void
/** A check for each option. */
export type Checks<Options> = { readonly [Name in keyof Required<Options>]: Check }

/**
 * Throws an `OptionError` unless all options exist and are valid or undefined. `parent` precedes
 * their names in messages.
 */
export function assertOptions<Options> (
  options: unknown,
  checks: Checks<Options>,
  parent = ''
): asserts options is Options & object {
  const withNames = (value: unknown): string =>
    `${shownType(value)}; there are the options ${Object.keys(checks).join(', ')}`
  checkThat('must be an object', isObject, withNames)(options, parent.slice(0, -1) || 'options')
  for (const [name, value] of Object.entries(Object(options))) {
    const check: Check | undefined = Object.hasOwn(checks, name)
      ? Reflect.get(checks, name)
      : undefined
    if (check === undefined) {
      throw new OptionError(parent + name, 'does not exist', value, withNames)
    }
    if (value !== undefined) check(value, parent + name)
  }
}

/** Returns a check of a rule, such as `must be an integer`. */
export function checkThat (
  rule: string,
  isValid: (value: unknown) => boolean,
  format = shown
): Check {
  return (value, option) => {
    if (!isValid(value)) throw new OptionError(option, rule, value, format)
  }
}

/** Whether a value is an object and not an array. */
export const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
/** Whether a value is a safe integer of at least 0. */
export const isNatural = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0
/** Whether a value is an object with a function of the given name. */
export const hasFunction = (value: unknown, name: string): boolean =>
  isObject(value) && typeof Reflect.get(value, name) === 'function'

const acceptAny = (): void => {}
/** The options that Fastify's `register` itself takes and also passes to the plugin. */
export const registerOptions = { prefix: acceptAny, logLevel: acceptAny, logSerializers: acceptAny }

// The longest delay that Node's timers support.
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
export const oneOf = (...accepted: readonly unknown[]): Check =>
  checkThat(`must be ${accepted.map((each) => `'${each}'`).join(' or ')}`, (value) =>
    accepted.includes(value)
  )
/** Returns a check that accepts only objects with functions of these names. */
export const withFunctions =
  (what: string, ...names: readonly string[]): Check =>
    (value, option) => {
      for (const name of names) {
        checkThat(
        `must be ${what} with a function ${name}`,
        () => hasFunction(value, name),
        shownType
        )(value, option)
      }
    }
