import type { FastifyInstance } from 'fastify'
import { SecondRegistrationError, shown } from './errors.js'

/**
 * Remembers where a plugin is registered, and throws where requests would pass through it twice: when it is already
 * registered on the same instance, on one around it, or on one within it. Sibling scopes may each have it.
 */
export class Registrations {
  readonly #scopesOfServer = new WeakMap<object, FastifyInstance[]>()

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
