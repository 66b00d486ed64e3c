import type { FastifyInstance } from 'fastify'
import { SecondRegistrationError, shown } from '../errors.js'

/**
 * Remembers the Fastify instances on which a plugin is registered. Requests would pass through it twice if it were also registered on the same
 * instance, on a parent, or on a child. Sibling scopes can each have a registration.
 */
export class Registrations {
  readonly #scopesOfServer = new WeakMap<object, readonly FastifyInstance[]>()

  /** @throws {SecondRegistrationError} */
  assertFirst (fastify: FastifyInstance): void {
    if (this.#scopesOf(fastify).some((scope) => scope === fastify || encloses(scope, fastify) || encloses(fastify, scope))) {
      throw new SecondRegistrationError(shown(fastify.prefix))
    }
  }

  add (fastify: FastifyInstance): void {
    this.#scopesOfServer.set(fastify.server, [...this.#scopesOf(fastify), fastify])
  }

  #scopesOf ({ server }: FastifyInstance): readonly FastifyInstance[] {
    return this.#scopesOfServer.get(server) ?? []
  }
}

function encloses (outer: FastifyInstance, inner: FastifyInstance): boolean {
  return Object.prototype.isPrototypeOf.call(outer, inner)
}
