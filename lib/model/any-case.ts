import { entriesOf } from '../option-checks.js'

/** Names of properties, to find them in letters of any case. */
export type NamesInAnyCase = ReadonlySet<string>

export function inAnyCase (...names: readonly string[]): NamesInAnyCase {
  return new Set(names.map(withoutCase))
}

/**
 * Returns what a request holds under some names, in letters of any case: servers that are written
 * in Go, such as Ollama's, read `Options` as `options`.
 */
export function valuesIn (value: object, names: NamesInAnyCase): unknown[] {
  const found = entriesOf(value).filter(([name]) => names.has(withoutCase(name)))
  return found.map(([, held]) => held)
}

/** Go takes the long s (U+017F) and the Kelvin sign (U+212A) for letters of ASCII, too. */
function withoutCase (name: string): string {
  return name.toUpperCase().toLowerCase()
}
