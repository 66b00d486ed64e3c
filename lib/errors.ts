import createError from '@fastify/error'

/**
 * Formats a value in one line. Of objects, functions and URLs, only the type is shown, because they
 * can contain passwords. Never throws.
 */
export function format (value: unknown): string {
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'object' && value !== null) return isArray(value) ? 'an array' : 'an object'
  if (typeof value === 'string' && value.includes('://')) return 'a URL'
  const text = typeof value === 'bigint' ? `${value}n` : String(value)
  const shortened = text.length > 100 ? `${text.slice(0, 100)}…` : text
  return typeof value === 'string' ? JSON.stringify(shortened) : shortened
}

function isArray (value: unknown): boolean {
  try {
    return Array.isArray(value)
  } catch {
    // The value is a revoked proxy.
    return false
  }
}

/**
 * Formats a value that can hold a secret or an identity in any form, such as a connection string or
 * what a function of the host returned. Only numbers, true, false, null and undefined are shown; of
 * any other value, only its type.
 */
export function formatType (value: unknown): string {
  if (typeof value === 'string') return 'a string'
  if (typeof value === 'symbol') return 'a symbol'
  return format(value)
}

const InvalidOption = createError(
  'FST_ERR_LLM_QUOTA_OPTION',
  'fastify-llm-quota: the %s %s; it got %s',
  500,
  TypeError
)
/**
 * An option, or a parameter of a function, has an invalid value. The message contains its name and
 * the value; of an object, only its type.
 */
export class OptionError extends InvalidOption {
  /**
   * @param rule What the value must be, for example `must be an integer`.
   * @param formatValue Formats the value for the message. It must not show secrets.
   */
  constructor (
    name: string,
    rule: string,
    value: unknown,
    formatValue = format,
    kind: 'option' | 'parameter' = 'option'
  ) {
    super(`${kind} ${name}`, rule, formatValue(value))
  }
}

/** Returns the error of a parameter that has an invalid value. */
export function parameterError (
  parameter: string,
  ofFunction: string,
  rule: string,
  value: unknown,
  formatValue = format
): OptionError {
  const name = `${parameter} of ${ofFunction}`
  return new OptionError(name, rule, value, formatValue, 'parameter')
}

const InvalidVariable = createError(
  'FST_ERR_LLM_QUOTA_ENVIRONMENT',
  'fastify-llm-quota: the environment variable %s %s; it got %s',
  500,
  TypeError
)
/**
 * An environment variable has an invalid value. The message contains the name of the variable and
 * the value.
 */
export class EnvironmentError extends InvalidVariable {
  /** @param rule What the value must be, for example `must be an integer`. */
  constructor (variable: string, rule: string, value: unknown) {
    super(variable, rule, format(value))
  }
}

/** The plugin is registered a second time for the same requests. */
export class SecondRegistrationError extends createError(
  'FST_ERR_LLM_QUOTA_SECOND_REGISTRATION',
  'fastify-llm-quota: registered a second time for the same requests (prefix %s), which would be ' +
    'counted twice. Register it once, and define further quotas with the option quotas'
) {}

/**
 * There is no quota with the given name. The message says where it was given, lists the existing
 * quotas and shows the value.
 */
export class UnknownQuotaError extends createError(
  'FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA',
  'fastify-llm-quota: %s must name an existing quota (%s); it got %s',
  500,
  TypeError
) {}

/** The host already has a decorator with a name that the plugin needs. */
export class DecoratorError extends createError(
  'FST_ERR_LLM_QUOTA_DECORATOR',
  'fastify-llm-quota: %s a decorator "%s", which the plugin needs; rename the existing decorator'
) {}

/**
 * The store, the authentication, the limit or the time zone failed in `fastify.quotaStanding`. The
 * message omits the error, which could reach the caller.
 */
export class StandingError extends createError(
  'FST_ERR_LLM_QUOTA_STANDING',
  'fastify-llm-quota: the standing of the caller could not be determined',
  503
) {}

/**
 * A store, or a function of the host, did not respond in time. `end` of a resumed permit rejects
 * with it.
 */
export class TimeLimitError extends createError(
  'FST_ERR_LLM_QUOTA_TIME_LIMIT',
  'no response within %s ms',
  503
) {}

/**
 * The request waited too long to be sent to the server of its store, while the server answered
 * others. The server is well, so an `InsuredQuotaStore` does not leave it.
 */
export class OverloadError extends createError(
  'FST_ERR_LLM_QUOTA_OVERLOAD',
  'more requests arrive than the quota store decides: after %s ms, the request was not sent',
  503
) {}
