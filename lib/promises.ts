/**
 * A value, or a promise of it where something of the host's returned one. The promise need not be
 * an instance of the global `Promise`, which a process can replace: async functions return Node's.
 */
export type Eventual<Value> = Value | PromiseLike<Value>

/**
 * Takes the next step with a value: immediately, or when the promise of it is fulfilled. So each
 * step is written once, and a request waits only for what is asynchronous. A value that is not a
 * promise must have no function `then`: thenables of the host are awaited where the host returns
 * them.
 */
export function then<Value, Result> (
  value: Eventual<Value>,
  step: (value: Value) => Eventual<Result>
): Eventual<Result> {
  return isPromise(value) ? value.then(step) : step(value)
}

/** Whether a value is a promise, or another object that can be awaited like one. */
export function isPromise<Value> (value: Eventual<Value>): value is PromiseLike<Value> {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return false
  const thenable: { readonly then?: unknown } = value
  return typeof thenable.then === 'function'
}

/**
 * Handles the rejection of a promise that a host's function returned instead of a value, so that it
 * does not end the process.
 */
export function ignoreRejection (value: unknown): void {
  Promise.resolve(value).catch(() => {})
}
