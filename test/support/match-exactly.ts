import { inspect } from 'node:util'
import type { Test } from 'tap'

/**
 * Compares a value with a pattern that says all that it means. Lists have the same length, at any
 * depth, and strings are the same, whereas `t.match` ignores what is more. A regular expression
 * matches a string, a constructor (`Number`, `Array`) any value of this type, and an object the
 * values that it names.
 */
export function matchExactly (
  t: Test,
  found: unknown,
  pattern: unknown,
  message = 'says exactly this'
): boolean {
  t.currentAssert = matchExactly
  const differences = differencesOf(found, pattern, '')
  if (differences.length === 0) return t.pass(message)
  // As texts, because tap would need minutes for all that a request refers to.
  return t.fail(message, { differences, found: inspect(found), pattern: inspect(pattern) })
}

function differencesOf (found: unknown, pattern: unknown, place: string): string[] {
  if (Array.isArray(pattern)) return differencesOfList(found, pattern, place)
  if (isPlainObject(pattern)) return differencesOfObject(found, pattern, place)
  if (matchesValue(found, pattern)) return []
  return [`${place || 'the value'} is ${shown(found)}, not ${shown(pattern)}`]
}

function differencesOfList (found: unknown, pattern: readonly unknown[], place: string): string[] {
  if (!Array.isArray(found)) return [`${place || 'the value'} is ${shown(found)}, not a list`]
  const differences = []
  if (found.length !== pattern.length) {
    differences.push(`${place || 'the list'} has ${found.length} entries, not ${pattern.length}`)
  }
  for (const [index, expected] of pattern.entries()) {
    differences.push(...differencesOf(found[index], expected, `${place}[${index}]`))
  }
  return differences
}

function differencesOfObject (
  found: unknown,
  pattern: Readonly<Record<string, unknown>>,
  place: string
): string[] {
  if (typeof found !== 'object' || found === null) {
    return [`${place || 'the value'} is ${shown(found)}, not an object`]
  }
  return Object.entries(pattern).flatMap(([name, expected]) =>
    differencesOf(Reflect.get(found, name), expected, `${place}.${name}`)
  )
}

function matchesValue (found: unknown, pattern: unknown): boolean {
  if (pattern instanceof RegExp) return typeof found === 'string' && pattern.test(found)
  if (Object.is(found, pattern)) return true
  if (typeof pattern !== 'function') return false
  return Object(found) instanceof pattern
}

function isPlainObject (value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

function shown (value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value)
}
