const backslash = 0x5c
const quote = 0x22
const openBrace = 0x7b
const openBracket = 0x5b
const closeBrace = 0x7d
const closeBracket = 0x5d

/** Follows the nesting of JSON, character by character. */
export class JsonNesting {
  #isInString = false
  #isEscaped = false

  /**
   * Returns how the next character changes the nesting: 1 where an object or array begins, -1 where
   * one ends, else 0.
   *
   * @param character Its code.
   */
  change (character: number): -1 | 0 | 1 {
    if (this.#isInString) {
      if (this.#isEscaped) this.#isEscaped = false
      else if (character === backslash) this.#isEscaped = true
      else if (character === quote) this.#isInString = false
      return 0
    }
    if (character === quote) this.#isInString = true
    if (character === openBrace || character === openBracket) return 1
    return character === closeBrace || character === closeBracket ? -1 : 0
  }
}

/** The longest text that is parsed whatever it contains, in characters. */
const longestUnchecked = 2_000

/** How deep the objects and arrays of a longer text can be nested. */
const deepest = 1_000

/** How many objects and arrays a longer text can have. */
const most = 500_000

/**
 * Whether a text can be parsed without much time and memory: 16 MiB of brackets would take ten
 * seconds and half a gigabyte.
 */
export function isCheapToParse (json: string): boolean {
  if (json.length <= longestUnchecked) return true
  const nesting = new JsonNesting()
  let depth = 0
  let begun = 0
  for (let position = 0; position < json.length; position += 1) {
    const change = nesting.change(json.charCodeAt(position))
    if (change === 0) continue
    depth += change
    if (change === 1) begun += 1
    if (depth > deepest || begun > most) return false
  }
  return true
}

/** Whether each object and array of a text that begins with one is closed. */
export function isClosed (json: string): boolean {
  const nesting = new JsonNesting()
  let depth = 0
  for (let position = 0; position < json.length; position += 1) {
    depth += nesting.change(json.charCodeAt(position))
  }
  return depth === 0
}
