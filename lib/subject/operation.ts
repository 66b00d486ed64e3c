import { OptionError, shown } from './errors.js'

/**
 * An HTTP operation, by method and application path: the request path without the deployment context prefix.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { type Operation } from 'fastify-llm-quota'
 *
 * // With the prefix, the request path is /context/api/translate.
 * const translate: Operation = { method: 'POST', path: '/api/translate' }
 * await Fastify().register(quotaPlugin, { prefix: '/context', operations: [translate] })
 * ```
 */
export interface Operation {
  /** The HTTP method, in any case (RFC 9110, section 9.1). */
  readonly method: string
  /** The application path. It starts with `/`, and is meant literally: no parameters, no wildcard. */
  readonly path: string
}

/**
 * The four model-backed operations that the quota applies to (specification, section 4).
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import quotaPlugin, { protectedOperations } from 'fastify-llm-quota'
 *
 * const app = Fastify()
 * await app.register(quotaPlugin, { operations: [...protectedOperations, { method: 'POST', path: '/api/translate' }] })
 * ```
 */
export const protectedOperations: readonly Operation[] = Object.freeze([
  Object.freeze({ method: 'POST', path: '/api/analyze' }),
  Object.freeze({ method: 'POST', path: '/api/justify-leaf' }),
  Object.freeze({ method: 'GET', path: '/api/analyze-stream' }),
  Object.freeze({ method: 'GET', path: '/api/analyze-node' })
])

// RFC 9110, section 5.6.2.
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const literalPath = /^\/[^?#:*]*$/

/** Throws, naming the option, unless every one of the operations can be matched. */
export function assertOperations (operations: unknown): asserts operations is readonly Operation[] {
  if (!Array.isArray(operations)) throw new OptionError('operations', 'must be an array of { method, path }', shown(operations))
  operations.forEach((operation: unknown, index) => {
    const { method, path } = Object(operation)
    if (typeof method !== 'string' || !token.test(method)) {
      throw new OptionError(`operations[${index}].method`, 'must be an HTTP method', shown(method))
    }
    if (typeof path !== 'string' || !literalPath.test(path)) {
      throw new OptionError(`operations[${index}].path`, 'must start with "/" and hold no "?", "#", ":" or "*"', shown(path))
    }
  })
}
