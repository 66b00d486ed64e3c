/** Returns the median. */
export function median (figures: readonly number[]): number {
  const sorted = [...figures].sort((one, other) => one - other)
  const middle = sorted.length / 2
  return ((sorted[Math.floor(middle)] ?? NaN) + (sorted[Math.ceil(middle) - 1] ?? NaN)) / 2
}

/** Returns the mean of the three lowest figures, which are least affected by other load on the machine. */
export function quiet (figures: readonly number[]): number {
  const least = [...figures].sort((one, other) => one - other).slice(0, 3)
  return least.reduce((sum, figure) => sum + figure, 0) / least.length
}
