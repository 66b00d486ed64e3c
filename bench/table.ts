/** A row of a table: what was measured with each limiter, or at each place. */
export interface Row {
  readonly title: string
  readonly unit: string
  readonly costs: Record<string, number>
}

/** Returns the table in Markdown, with a column for each name in the rows. */
export function tableOf (rows: readonly Row[]): string {
  const names = [...new Set(rows.flatMap(({ costs }) => Object.keys(costs)))]
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  const shown = (cost: number | undefined): string => {
    if (cost === undefined) return ''
    return cost.toFixed(cost < 10 ? 2 : 1)
  }
  return [
    line(['', 'unit', ...names]),
    `|---|---|${names.map(() => '---:|').join('')}`,
    ...rows.map(({ title, unit, costs }) =>
      line([title, unit, ...names.map((name) => shown(costs[name]))])
    )
  ].join('\n')
}

/**
 * Returns the ratios of a row: what each limiter costs, divided by what the peer costs that does
 * the same work.
 *
 * @param peers The peer of each limiter.
 */
export function ratiosOf ({ title, costs }: Row, peers: Readonly<Record<string, string>>): Row {
  const ratios = Object.entries(peers).map(([name, peer]) => [
    name,
    (costs[name] ?? NaN) / (costs[peer] ?? NaN)
  ])
  return { title, unit: 'of the peer', costs: Object.fromEntries(ratios) }
}

export function median (figures: readonly number[]): number {
  return [...figures].sort((one, other) => one - other)[Math.floor(figures.length / 2)] ?? NaN
}
