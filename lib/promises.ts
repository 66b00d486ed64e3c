/** Whether a value is a promise, or another object that can be awaited like one. */
export function isPromise<Value> (value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return false
  const { then }: { readonly then?: unknown } = value
  return typeof then === 'function'
}

/** Whether none of the values is a promise of this package. */
export function areReady<Value> (
  values: readonly (Value | Promise<Value>)[]
): values is readonly Value[] {
  for (const value of values) if (value instanceof Promise) return false
  return true
}

/**
 * Turns what a host's function returned into a promise if it can be awaited. Each `then` of some
 * clients' promises repeats a command.
 */
export function promised<Value> (value: Value | PromiseLike<Value>): Value | Promise<Value> {
  return isPromise(value) ? Promise.resolve(value) : value
}

// The following functions take promises of this package, for which `instanceof` costs less.

/** Runs a step with a value: at once, or, if it is a promise, when it is fulfilled. */
export function proceed<Value, Result> (
  value: Value | Promise<Value>,
  step: (value: Value) => Result | Promise<Result>
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(step) : step(value)
}

/** Runs a step for each item. A promise only if one of the steps returned one. */
export function forAll<Item> (
  items: readonly Item[],
  step: (item: Item) => void | Promise<void>
): void | Promise<void> {
  let pending: Promise<void>[] | undefined
  for (const item of items) {
    const running = step(item)
    if (running instanceof Promise) (pending ??= []).push(running)
  }
  if (pending !== undefined) return Promise.all(pending).then(() => {})
}

/**
 * Runs a function; `recover` receives what it throws, or the reason with which its promise rejects.
 */
export function attempt<Result> (
  run: () => Result | Promise<Result>,
  recover: (error: unknown) => Result | Promise<Result>
): Result | Promise<Result> {
  try {
    const result = run()
    return result instanceof Promise ? result.catch(recover) : result
  } catch (error) {
    return recover(error)
  }
}

/**
 * Handles the rejection of a promise that a host's function returned instead of a value, so that it
 * does not end the process.
 */
export function ignoreRejection (value: unknown): void {
  Promise.resolve(value).catch(() => {})
}
