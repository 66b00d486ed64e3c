/** Whether a value is an object with a function of the given name. */
export function hasFunction (value: unknown, name: string): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === 'function'
}
