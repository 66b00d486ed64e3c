/** A row of the table: what one request costs with each limiter. */
export interface Row {
  readonly title: string
  readonly unit: string
  readonly costs: Record<string, number>
}

/**
 * Returns the table in Markdown, with what the limiters add to Fastify alone where that was
 * measured.
 */
export function tableOf (rows: readonly Row[], limiters: readonly string[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  const shown = (cost: number | undefined): string => (cost === undefined ? '' : cost.toFixed(1))
  return [
    line(['one request', 'unit', ...limiters]),
    `|---|---|${limiters.map(() => '---:|').join('')}`,
    ...rows.map(({ title, unit, costs }) =>
      line([title, unit, ...limiters.map((name) => shown(costs[name]))])
    )
  ].join('\n')
}

export function median (figures: readonly number[]): number {
  return [...figures].sort((one, other) => one - other)[Math.floor(figures.length / 2)] ?? NaN
}
