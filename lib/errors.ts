import { inspect } from 'node:util'
import createError from '@fastify/error'

/** An option that cannot be used. Its message names the option and the value it got. */
export const OptionError = createError('FST_ERR_LLM_QUOTA_OPTION', 'fastify-llm-quota: the option %s %s; it got %s', 500, TypeError)

/** An environment variable that cannot be used. Its message names the variable and the value it got. */
export const EnvironmentError = createError('FST_ERR_LLM_QUOTA_ENVIRONMENT', 'fastify-llm-quota: the environment variable %s %s; it got %s', 500, TypeError)

/** The plugin was registered where the same requests already pass through it. */
export const SecondRegistrationError = createError('FST_ERR_LLM_QUOTA_SECOND_REGISTRATION', 'fastify-llm-quota: registered a second time where the same requests already pass through it (prefix %s); each would be counted twice')

/** A value as an error message or a log line shows it: on one line, and short. */
export function shown (value: unknown): string {
  const text = inspect(value, { depth: 1, breakLength: Infinity })
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}

/** Whether a value is an object with a function of that name. */
export function hasFunction (value: unknown, name: string): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === 'function'
}
