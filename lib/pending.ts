/**
 * A value or an error that is available later. It can be awaited. Its `then` does not create a promise, so waiting for a promise
 * creates only the promise that its own `then` returns.
 */
export class Pending<Value> {
  #outcome: { readonly value: Value } | { readonly error: unknown } | undefined
  #receive: ((value: Value) => void) | undefined
  #fail: ((error: unknown) => void) | undefined

  /** Whether it is not settled yet. */
  get isOpen (): boolean {
    return this.#outcome === undefined
  }

  /** Calls one of two functions, which must not throw, as soon as the value or the error is available. Must be called only once. */
  then (receive: (value: Value) => void, fail: (error: unknown) => void): void {
    this.#receive = receive
    this.#fail = fail
    if (this.#outcome !== undefined) this.#pass(this.#outcome)
  }

  /** Settles with the result or the error of a function. Must be called only once. */
  settle (make: () => Value | Pending<Value>): void {
    try {
      const made = make()
      if (made instanceof Pending) made.then((value) => { this.#pass({ value }) }, (error) => { this.#pass({ error }) })
      else this.#pass({ value: made })
    } catch (error) {
      this.#pass({ error })
    }
  }

  /** Returns the result of a step that runs with the value. */
  next<Next> (step: (value: Value) => Next | Pending<Next>): Pending<Next> {
    const next = new Pending<Next>()
    this.then((value) => { next.settle(() => step(value)) }, (error) => { next.#pass({ error }) })
    return next
  }

  #pass (outcome: { readonly value: Value } | { readonly error: unknown }): void {
    this.#outcome = outcome
    const receive = this.#receive
    const fail = this.#fail
    if (receive === undefined || fail === undefined) return
    // A promise that never settles may keep this object alive. The callbacks and the objects that they refer to must not stay alive
    // with it.
    this.#receive = undefined
    this.#fail = undefined
    if ('value' in outcome) receive(outcome.value)
    else fail(outcome.error)
  }
}
