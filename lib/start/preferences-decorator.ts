import type { FastifyInstance } from 'fastify'
import { assertPreferences, type PreferenceReader } from '../limit/preference-reader.js'

const name = 'preferences'

/** Decorates the Fastify instance with the option `preferences`, unless the host already has a decorator of that name. */
export function decorateWithPreferences (fastify: FastifyInstance, given: PreferenceReader | false | undefined): void {
  if (given === undefined || given === false || fastify.hasDecorator(name)) return
  fastify.decorate(name, given)
}

/**
 * Returns the preference reader from the option or, if it is not set, from the host's decorator. Must be called when the server is
 * ready.
 */
export function preferencesOf (fastify: FastifyInstance, given: PreferenceReader | false | undefined): PreferenceReader | undefined {
  if (given === false) return undefined
  const preferences: unknown = given ?? Reflect.get(fastify, name)
  if (preferences == null) return undefined
  assertPreferences('preferences, as the host decorated it,', preferences, '. If the decorator has another purpose, set the option preferences to a reader or to false')
  return preferences
}
