/** Returns the number of seconds until a window ends, rounded up, and at least 1 (docs/rules.md, "Refusal"). */
export function secondsUntilEnd (windowRemaining: number): number {
  return Math.max(1, Math.ceil(windowRemaining / 1000))
}
