const decimal = /^-?\d+$/

/** The safe integer that a value is, or spells in decimal; undefined for every other value. A fraction is never rounded. */
export function toInteger (value: unknown): number | undefined {
  const number = typeof value === 'string' && decimal.test(value) ? Number(value) : value
  // Adding 0 turns -0, which is exactly 0 as well, into 0.
  return Number.isSafeInteger(number) && typeof number === 'number' ? number + 0 : undefined
}
