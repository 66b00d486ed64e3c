import type { FastifyInstance } from 'fastify'
import { DecoratorError, OptionError, SecondRegistrationError, format } from '../errors.js'
import { assertPreferenceReader, type PreferenceReader } from '../limit/preferences.js'
import { MemoryQuotaStore } from '../store/memory/memory-store.js'
import { assertStore } from '../store/store-functions.js'
import type { QuotaStore } from '../store/store.js'

/**
 * Remembers where a plugin is registered: requests would pass twice through a second one on the
 * same instance, a parent or a child.
 */
export class Registrations {
  readonly #scopes = new WeakMap<object, readonly FastifyInstance[]>()

  /** @throws {SecondRegistrationError} */
  assertFirst (fastify: FastifyInstance): void {
    for (const scope of this.#scopesOf(fastify)) {
      if (isWithin(scope, fastify) || isWithin(fastify, scope)) {
        throw new SecondRegistrationError(format(fastify.prefix))
      }
    }
  }

  add (fastify: FastifyInstance): void {
    this.#scopes.set(fastify.server, [...this.#scopesOf(fastify), fastify])
  }

  #scopesOf ({ server }: FastifyInstance): readonly FastifyInstance[] {
    return this.#scopes.get(server) ?? []
  }
}

/** Whether a scope is another one or one of its parents: a scope inherits from its parent. */
function isWithin (outer: FastifyInstance, inner: FastifyInstance): boolean {
  return outer === inner || Object.prototype.isPrototypeOf.call(outer, inner)
}

const requestDecorators = ['quota']
const instanceDecorators = [
  'quotaConfig',
  'quotas',
  'quotaAcquire',
  'quotaResume',
  'quotaStanding',
  'quotaForget'
]

/**
 * Throws a `DecoratorError` if the host already has a decorator with a name that the plugin needs.
 */
export function assertDecorators (fastify: FastifyInstance): void {
  for (const name of requestDecorators) {
    if (fastify.hasRequestDecorator(name)) throw new DecoratorError('requests already have', name)
  }
  for (const name of instanceDecorators) {
    if (fastify.hasDecorator(name)) {
      throw new DecoratorError('the Fastify instance already has', name)
    }
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
