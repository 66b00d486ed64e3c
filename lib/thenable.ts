/** Whether a value is a promise, of whatever kind. */
export function isThenable<Value> (value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}
