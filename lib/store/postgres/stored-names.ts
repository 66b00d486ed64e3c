// Names of counters and callers can be any strings, and a database can have an encoding with few
// characters. They are stored as in JSON, with escapes for all that is not printable ASCII: a
// digest, and almost every other name, as it is.

/** Returns what is stored for a name. No other name has the same. */
export function storedName (name: string): string {
  const escaped = JSON.stringify(name).slice(1, -1)
  return escaped.replaceAll(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  )
}

/** Returns the name of what is stored. */
export function unstoredName (stored: string): string {
  return String(JSON.parse(`"${stored}"`))
}
