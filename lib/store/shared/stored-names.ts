import type { Demand } from '../store.js'

// Names of counters and callers can be any strings. They are stored in ASCII and without spaces: a
// digest, and almost every other name, as it is.

const needsNoEscape = /^[!#-[\]-~]*$/

/** Returns what is stored for a name. It has no space, and no other name has the same. */
export function storedName (name: string): string {
  // To escape a digest would cost several times as much as to see that it needs none.
  if (needsNoEscape.test(name)) return name
  return inAscii(name).replaceAll(' ', '\\u0020')
}

/**
 * Returns a text as the content of a string of JSON, with escapes for all that is not printable
 * ASCII: a database can have an encoding with few characters, a text of PostgreSQL can have no NUL,
 * and a half of a surrogate pair has no UTF-8.
 */
export function inAscii (text: string): string {
  return JSON.stringify(text)
    .slice(1, -1)
    .replaceAll(
      /[\u007f-\uffff]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
    )
}

const storedPattern = /^(?:[!#-[\]-~]|\\["\\bfnrt]|\\u[0-9a-f]{4})*$/

/** Returns the name that a text is stored for; null if it is stored for none. */
export function readStoredName (text = ''): string | null {
  if (needsNoEscape.test(text)) return text
  return storedPattern.test(text) ? unstoredName(text) : null
}

/** Returns the name of what is stored. */
export function unstoredName (stored: string): string {
  if (needsNoEscape.test(stored)) return stored
  return String(JSON.parse(`"${stored}"`))
}

/**
 * The row of an overflow counter, beside the rows of the callers. No caller's name is stored as
 * this: there, a quotation mark has a backslash before it.
 */
export const overflowRow = '"overflow"'

/** Returns the name of the row of a caller's own counter, or of the overflow counter. */
export function rowOf (callerKey: string, overflow: boolean): string {
  return overflow ? overflowRow : storedName(callerKey)
}

/** Returns a name that no other row, and no row of other counters, has. */
export function counterName (counters: string, row: string): string {
  return `${counters.length} ${counters} ${row}`
}

/** The names of the counters that a demand can reach: the caller's own, and that of overflow. */
export function countersOf ({ counters, callerKey }: Demand): string[] {
  return [
    counterName(counters, storedName(callerKey)),
    counterName(counters, overflowRow)
  ]
}
