/** Whether a value is a promise or another thenable: an object or a function with a function `then`. */
export function isThenable<Value> (value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return ((typeof value === 'object' && value !== null) || typeof value === 'function') && 'then' in value && typeof value.then === 'function'
}

/**
 * Calls one of two functions, which must not throw, when a promise or another thenable settles. For a native promise, this creates
 * only one further promise.
 */
export function whenSettled<Value> (promise: PromiseLike<Value>, fulfilled: (value: Value) => void, rejected: (error: unknown) => void): void {
  const native = promise instanceof Promise ? promise : Promise.resolve(promise)
  native.then(fulfilled, rejected)
}
