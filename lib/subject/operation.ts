import { OptionError } from '../errors.js'

/** An HTTP operation: a method and an application path, which is the request path without the deployment context prefix. */
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

// RFC 9110, section 5.6.2.
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const literalPath = /^\/[^?#:*]*$/

/** Throws an `OptionError` unless the value is a list of operations that requests can match. */
export function assertOperations (operations: unknown, option: string): void {
  if (!Array.isArray(operations)) throw new OptionError(option, 'must be an array of { method, path }', operations)
  operations.forEach((operation: unknown, index) => {
    if (typeof operation !== 'object' || operation === null) throw new OptionError(`${option}[${index}]`, 'must be an object { method, path }', operation)
    const { method, path } = Object(operation)
    if (typeof method !== 'string' || !token.test(method)) throw new OptionError(`${option}[${index}].method`, 'must be an HTTP method', method)
    if (typeof path !== 'string' || !literalPath.test(path)) {
      throw new OptionError(`${option}[${index}].path`, 'must start with "/" and must not contain "?", "#", ":" or "*" (mark a route with parameters with config.quota)', path)
    }
  })
}
