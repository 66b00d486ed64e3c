/**
 * Returns a value that must be there. That it is missing is a fault of this package, which must not
 * pass for an empty object or a 0.
 *
 * @param name What the value is, for the message of the error.
 * @throws {TypeError} If the value is `undefined` or `null`.
 */
export function required<Value> (value: Value, name: string): NonNullable<Value> {
  if (value === undefined || value === null) throw new TypeError(`${name} is missing`)
  return value
}
