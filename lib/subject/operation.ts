import type { FastifyRequest } from 'fastify'
import { OptionError } from '../errors.js'
import { checkThat, isObject } from '../option-checks.js'

/**
 * An HTTP operation: a method and an application path, which is the request path without the
 * deployment context prefix.
 */
export interface Operation {
  /** The HTTP method, in any case (RFC 9110, section 9.1). */
  readonly method: string
  /** The application path. It starts with `/` and contains no parameters and no wildcard. */
  readonly path: string
}

/** The four operations that are protected by default (docs/rules.md, "Subject"). */
export const protectedOperations: readonly Operation[] = Object.freeze([
  Object.freeze({ method: 'POST', path: '/api/analyze' }),
  Object.freeze({ method: 'POST', path: '/api/justify-leaf' }),
  Object.freeze({ method: 'GET', path: '/api/analyze-stream' }),
  Object.freeze({ method: 'GET', path: '/api/analyze-node' })
])

/** A token (RFC 9110, section 5.6.2). */
const token = /^[\w!#$%&'*+.^`|~-]+$/

const assertMethod = checkThat(
  'must be an HTTP method',
  (method) => typeof method === 'string' && token.test(method)
)

const assertPath = checkThat(
  'must start with "/" and not contain "?", "#", ":" or "*" ' +
    '(mark routes with parameters with config.quota)',
  (path) => typeof path === 'string' && /^\/[^?#:*]*$/.test(path)
)

/** Throws an `OptionError` unless the value is a list of operations that requests can match. */
export function assertOperations (operations: unknown, option: string): void {
  if (!Array.isArray(operations)) {
    throw new OptionError(option, 'must be an array of { method, path }', operations)
  }
  for (const [index, operation] of operations.entries()) {
    assertOperation(operation, `${option}[${index}]`)
  }
}

function assertOperation (operation: unknown, option: string): void {
  if (!isObject(operation)) {
    throw new OptionError(option, 'must be an object { method, path }', operation)
  }
  assertMethod(Reflect.get(operation, 'method'), `${option}.method`)
  assertPath(Reflect.get(operation, 'path'), `${option}.path`)
}

/**
 * Returns the operation of a request's route, which need not be protected: its path is the pattern
 * of the route, or `*` if no route matched.
 */
export function operationOf (request: FastifyRequest): Operation {
  // A host may give another framework's request, or one that it has made itself.
  const { routeOptions }: { readonly routeOptions?: { readonly url?: string | undefined } } =
    request
  return Object.freeze({ method: request.method, path: routeOptions?.url ?? '*' })
}
