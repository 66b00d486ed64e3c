const decimal = /^-?\d+$/

/** Returns a safe integer, or a string that contains one in decimal notation, as a number; undefined for any other value. Never rounds. */
export function toInteger (value: unknown): number | undefined {
  const number = typeof value === 'string' && decimal.test(value) ? Number(value) : value
  // Adding 0 turns -0 into 0.
  return Number.isSafeInteger(number) && typeof number === 'number' ? number + 0 : undefined
}
