import type { FastifyInstance } from 'fastify'
import { SecondRegistrationError, shown } from './errors.js'

const scopesOfServer = new WeakMap<object, FastifyInstance[]>()

/**
 * Throws where requests would pass through the plugin twice: when it is already registered on the same instance, on one
 * around it, or on one within it. Sibling scopes may each have it.
 */
export function refuseSecondRegistration (fastify: FastifyInstance): void {
  const scopes = scopesOfServer.get(fastify.server) ?? []
  if (scopes.some((scope) => scope === fastify || encloses(scope, fastify) || encloses(fastify, scope))) {
    throw new SecondRegistrationError(shown(fastify.prefix))
  }
  scopesOfServer.set(fastify.server, [...scopes, fastify])
}

function encloses (outer: FastifyInstance, inner: FastifyInstance): boolean {
  return Object.prototype.isPrototypeOf.call(outer, inner)
}
