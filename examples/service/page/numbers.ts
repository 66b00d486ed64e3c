const whole = new Intl.NumberFormat('en')
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

/** Formats a number with thousands separators and a typographic minus sign. */
export function inFull (value: number): string {
  return whole.format(value).replace('-', '−')
}

/** Formats a number in a few characters. */
export function inShort (value: number): string {
  return Math.abs(value) < 100_000 ? inFull(value) : compact.format(value)
}

/** Formats a count, for example `1 token` or `3 tokens`. */
export function counted (count: number, noun: string): string {
  return `${inFull(count)} ${noun}${count === 1 ? '' : 's'}`
}

/** Formats milliseconds as seconds, rounded up like `Retry-After`. No line breaks before the unit. */
export function secondsOf (milliseconds: number): string {
  return `${Math.ceil(milliseconds / 1000)}\u{a0}s`
}
