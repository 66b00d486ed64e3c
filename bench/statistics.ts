/** The middle of some figures, or the mean of the two in the middle. */
export function median (figures: readonly number[]): number {
  const sorted = [...figures].sort((one, other) => one - other)
  const middle = sorted.length / 2
  return ((sorted[Math.floor(middle)] ?? NaN) + (sorted[Math.ceil(middle) - 1] ?? NaN)) / 2
}

/** The mean of the three least figures: what a round costs when nothing else on the machine gets in its way. */
export function quiet (figures: readonly number[]): number {
  const least = [...figures].sort((one, other) => one - other).slice(0, 3)
  return least.reduce((sum, figure) => sum + figure, 0) / least.length
}
