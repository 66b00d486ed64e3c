type Finding<T> = { readonly found: T } | { readonly failed: unknown } | 'end'

/** A queue of findings between the model and a reader with a different pace. */
export class Findings<T> {
  readonly #unread: Finding<T>[] = []
  #wake = (): void => {}

  add (found: T): void {
    this.#push({ found })
  }

  end (): void {
    this.#push('end')
  }

  fail (failed: unknown): void {
    this.#push({ failed })
  }

  /** Yields the findings in order. Throws the error of the model after the findings that came before it. */
  async * read (): AsyncGenerator<T> {
    for (;;) {
      const next = this.#unread.shift()
      if (next === undefined) await new Promise<void>((resolve) => { this.#wake = resolve })
      else if (next === 'end') return
      else if ('failed' in next) throw next.failed
      else yield next.found
    }
  }

  #push (finding: Finding<T>): void {
    this.#unread.push(finding)
    this.#wake()
  }
}
