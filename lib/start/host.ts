import type { FastifyInstance } from 'fastify'
import { DecoratorError, OptionError, SecondRegistrationError, format } from '../errors.js'
import { assertPreferenceReader, type PreferenceReader } from '../limit/preferences.js'
import { MemoryQuotaStore } from '../store/memory/memory-store.js'
import { assertStore, type QuotaStore } from '../store/store.js'

/**
 * Remembers where a plugin is registered: requests would pass twice through a second one on the
 * same instance, a parent or a child.
 */
export class Registrations {
  readonly #scopes = new WeakMap<object, readonly FastifyInstance[]>()

  /** @throws {SecondRegistrationError} */
  assertFirst (fastify: FastifyInstance): void {
    const isIn = (outer: object, inner: object): boolean =>
      outer === inner || Object.prototype.isPrototypeOf.call(outer, inner)
    const scopes = this.#scopes.get(fastify.server) ?? []
    if (scopes.some((scope) => isIn(scope, fastify) || isIn(fastify, scope))) {
      throw new SecondRegistrationError(format(fastify.prefix))
    }
  }

  add (fastify: FastifyInstance): void {
    this.#scopes.set(fastify.server, [...(this.#scopes.get(fastify.server) ?? []), fastify])
  }
}

/**
 * Throws a `DecoratorError` if the host already has a decorator with a name that the plugin needs.
 */
export function assertDecorators (fastify: FastifyInstance): void {
  const ofRequests = ['quota', 'quotaDecisions'].find((name) => fastify.hasRequestDecorator(name))
  if (ofRequests !== undefined) throw new DecoratorError('requests already have', ofRequests)
  const names = [
    'quotaConfig',
    'quotas',
    'quotaAcquire',
    'quotaCharge',
    'quotaStanding',
    'quotaForget'
  ]
  const ofInstance = names.find((name) => fastify.hasDecorator(name))
  if (ofInstance !== undefined) {
    throw new DecoratorError('the Fastify instance already has', ofInstance)
  }
}

/**
 * Returns the store of the Fastify instance: the option `store`, the host's decorator, or a new
 * `MemoryQuotaStore`, in this order.
 */
export function chooseStore (fastify: FastifyInstance, given: QuotaStore | undefined): QuotaStore {
  if (!fastify.hasDecorator('quotaStore')) return given ?? new MemoryQuotaStore()
  if (given !== undefined) {
    throw new OptionError(
      'store',
      'must not be set, because the host has decorated its own quotaStore',
      given
    )
  }
  assertStore(fastify.quotaStore, 'quotaStore, as the host decorated it,')
  return fastify.quotaStore
}

/**
 * Returns the preference reader from the option or, if it is not set, from the host's decorator
 * when the server is ready.
 */
export function preferencesOf (
  fastify: FastifyInstance,
  given: PreferenceReader | false | undefined
): PreferenceReader | undefined {
  if (given === false) return undefined
  const preferences: unknown = given ?? Reflect.get(fastify, 'preferences')
  if (preferences == null) return undefined
  const advice =
    'set the option preferences to a reader or to false if the decorator has another purpose'
  assertPreferenceReader(preferences, `preferences, as the host decorated it (${advice}),`)
  return preferences
}
