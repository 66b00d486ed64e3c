import type { FastifyInstance } from 'fastify'
import { SecondRegistrationError, shown } from '../errors.js'

/**
 * Remembers the Fastify instances on which a plugin is registered. Throws if requests would pass through it twice: if it is already
 * registered on the same instance, on a parent, or on a child. Sibling scopes can each have a registration.
 */
export class Registrations {
  readonly #scopesOfServer = new WeakMap<object, FastifyInstance[]>()

  /** @throws {SecondRegistrationError} */
  add (fastify: FastifyInstance): void {
    const scopes = this.#scopesOfServer.get(fastify.server) ?? []
    if (scopes.some((scope) => scope === fastify || encloses(scope, fastify) || encloses(fastify, scope))) {
      throw new SecondRegistrationError(shown(fastify.prefix))
    }
    this.#scopesOfServer.set(fastify.server, [...scopes, fastify])
  }
}

function encloses (outer: FastifyInstance, inner: FastifyInstance): boolean {
  return Object.prototype.isPrototypeOf.call(outer, inner)
}
