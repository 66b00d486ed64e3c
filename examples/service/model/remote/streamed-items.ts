/** Finds the objects in the list of `{"…":[{…},{…}]}` while the text is still arriving. */
export class StreamedItems {
  #depth = 0
  #inString = false
  #escaped = false
  #item = ''
  #begun = false

  /** Whether the text is complete. */
  get complete (): boolean {
    return this.#begun && this.#depth === 0
  }

  /** Adds the next part of the text. Yields the objects that it completes, as JSON. */
  * take (part: string): Generator<string> {
    for (const character of part) {
      const depth = this.#depth
      this.#step(character)
      if (this.#depth >= 3 || depth >= 3) this.#item += character
      if (depth === 3 && this.#depth === 2) {
        yield this.#item
        this.#item = ''
      }
    }
  }

  #step (character: string): void {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false
      else if (character === '\\') this.#escaped = true
      else if (character === '"') this.#inString = false
      return
    }
    if (character === '"') this.#inString = true
    else if (character === '{' || character === '[') {
      this.#depth++
      this.#begun = true
    } else if (character === '}' || character === ']') this.#depth--
  }
}
