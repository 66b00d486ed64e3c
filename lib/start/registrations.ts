import type { FastifyInstance } from 'fastify'
import { SecondRegistrationError, shown } from '../errors.js'

/** Remembers where a plugin is registered: requests would pass twice through a second one on the same instance, a parent or a child. */
export class Registrations {
  readonly #scopes = new WeakMap<object, readonly FastifyInstance[]>()

  /** @throws {SecondRegistrationError} */
  assertFirst (fastify: FastifyInstance): void {
    const isIn = (outer: object, inner: object): boolean => outer === inner || Object.prototype.isPrototypeOf.call(outer, inner)
    const scopes = this.#scopes.get(fastify.server) ?? []
    if (scopes.some((scope) => isIn(scope, fastify) || isIn(fastify, scope))) throw new SecondRegistrationError(shown(fastify.prefix))
  }

  add (fastify: FastifyInstance): void {
    this.#scopes.set(fastify.server, [...this.#scopes.get(fastify.server) ?? [], fastify])
  }
}
