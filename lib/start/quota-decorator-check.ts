import type { FastifyInstance } from 'fastify'
import { DecoratorError } from '../errors.js'

/** Throws a `DecoratorError` if the host already has a request decorator named `quota`. */
export function assertNoQuotaDecorator (fastify: FastifyInstance): void {
  if (fastify.hasRequestDecorator('quota')) throw new DecoratorError()
}
