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

const assertList = checkThat('must be an array of { method, path }', Array.isArray)
const assertOperation = checkThat('must be an object { method, path }', isObject)
// A token (RFC 9110, section 5.6.2).
const assertMethod = checkThat(
  'must be an HTTP method',
  (method) => typeof method === 'string' && /^[\w!#$%&'*+.^`|~-]+$/.test(method)
)
const assertPath = checkThat(
  'must start with "/" and not contain "?", "#", ":" or "*" (mark routes with parameters with config.quota)',
  (path) => typeof path === 'string' && /^\/[^?#:*]*$/.test(path)
)

/** Throws an `OptionError` unless the value is a list of operations that requests can match. */
export function assertOperations (operations: unknown, option: string): void {
  assertList(operations, option)
  for (const [index, operation] of [operations].flat().entries()) {
    assertOperation(operation, `${option}[${index}]`)
    const { method, path } = Object(operation)
    assertMethod(method, `${option}[${index}].method`)
    assertPath(path, `${option}[${index}].path`)
  }
}
