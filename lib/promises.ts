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
 * Handles the rejection of a promise that a host's function returned instead of a value, so that it
 * does not end the process.
 */
export function ignoreRejection (value: unknown): void {
  Promise.resolve(value).catch(() => {})
}
