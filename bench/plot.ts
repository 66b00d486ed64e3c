// Draws SVG plots for light and dark mode.

const colors = ['#3b82f6', '#f59e0b', '#ef4444', '#10b981', '#a855f7', '#64748b']

export interface Series {
  readonly name: string
  readonly points: readonly (readonly [x: number, y: number])[]
}

export interface LinePlot {
  readonly title: string
  readonly xLabel: string
  readonly series: readonly Series[]
  /** Whether the horizontal axis is logarithmic. */
  readonly logarithmic?: boolean
}

export interface Bar {
  readonly name: string
  readonly middle: number
  readonly least: number
  readonly most: number
}

export interface BarPlot {
  readonly title: string
  readonly bars: readonly Bar[]
}

const width = 720
const panelHeight = 220

/** Draws line plots, one below the other. */
export function linePlots (plots: readonly LinePlot[]): string {
  return svg(plots.length * panelHeight, plots.map((plot, index) => `<g transform="translate(0 ${index * panelHeight})">${linePlot(plot)}</g>`).join('\n'))
}

/** Draws bar plots with the spread of each bar, one below the other. */
export function barPlots (plots: readonly BarPlot[]): string {
  let top = 0
  const parts = plots.map((plot) => {
    const part = `<g transform="translate(0 ${top})">${barPlot(plot)}</g>`
    top += heightOfBars(plot)
    return part
  })
  return svg(top, parts.join('\n'))
}

function svg (height: number, body: string): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="12">
<style>
  text { fill: #1f2937 } .axis { stroke: #9ca3af; stroke-width: 1 } .grid { stroke: #e5e7eb; stroke-width: 1 } rect.page { fill: #ffffff } .spread { stroke: #1f2937 }
  @media (prefers-color-scheme: dark) { text { fill: #e5e7eb } .axis { stroke: #6b7280 } .grid { stroke: #374151 } rect.page { fill: #111827 } .spread { stroke: #e5e7eb } }
</style>
<rect class="page" width="${width}" height="${height}"/>
${body}
</svg>
`
}

function linePlot ({ title, xLabel, series, logarithmic = false }: LinePlot): string {
  const [left, right, top, bottom] = [70, width - 150, 36, panelHeight - 40]
  const xs = series.flatMap(({ points }) => points.map(([x]) => logarithmic ? Math.log10(x) : x))
  const [least, most] = [Math.min(...xs), Math.max(...xs)]
  const ceiling = niceCeiling(Math.max(...series.flatMap(({ points }) => points.map(([, y]) => y)), Number.MIN_VALUE))
  const atX = (x: number) => left + ((logarithmic ? Math.log10(x) : x) - least) / (most - least || 1) * (right - left)
  const atY = (y: number) => bottom - y / ceiling * (bottom - top)
  const grid = [0, 0.25, 0.5, 0.75, 1].map((part) => `<line class="grid" x1="${left}" x2="${right}" y1="${atY(part * ceiling)}" y2="${atY(part * ceiling)}"/><text x="${left - 8}" y="${atY(part * ceiling) + 4}" text-anchor="end">${short(part * ceiling)}</text>`)
  const places = logarithmic
    ? [...new Set(series.flatMap(({ points }) => points.map(([x]) => x)))]
    : multiplesWithin(least, most)
  const ticks = places.map((x) => `<text x="${atX(x)}" y="${bottom + 16}" text-anchor="middle">${short(x)}</text>`)
  const lines = series.map(({ name, points }, index) => {
    const color = colors[index % colors.length]
    return `<polyline fill="none" stroke="${color}" stroke-width="2" points="${points.map(([x, y]) => `${atX(x).toFixed(1)},${atY(y).toFixed(1)}`).join(' ')}"/>` +
      `<rect x="${right + 12}" y="${top + index * 18 - 8}" width="10" height="10" fill="${color}"/><text x="${right + 28}" y="${top + index * 18 + 1}">${escape(name)}</text>`
  })
  return `<text x="${left}" y="20" font-weight="600">${escape(title)}</text>${grid.join('')}<line class="axis" x1="${left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>${ticks.join('')}<text x="${(left + right) / 2}" y="${bottom + 32}" text-anchor="middle">${escape(xLabel)}</text>${lines.join('')}`
}

/** Returns the multiples of 1, 2 or 5 times a power of ten in a range, which are from four to ten. */
function multiplesWithin (least: number, most: number): number[] {
  const power = 10 ** Math.floor(Math.log10((most - least || 1) / 4))
  const step = power * ([5, 2].find((factor) => (most - least) / (power * factor) >= 4) ?? 1)
  const first = Math.ceil(least / step)
  return Array.from({ length: Math.floor(most / step) - first + 1 }, (_, index) => (first + index) * step)
}

function heightOfBars ({ bars }: BarPlot): number {
  return 50 + bars.length * 26
}

function barPlot ({ title, bars }: BarPlot): string {
  const [left, right] = [220, width - 90]
  const ceiling = niceCeiling(Math.max(...bars.map(({ most }) => most), Number.MIN_VALUE))
  const at = (value: number) => left + Math.max(0, value) / ceiling * (right - left)
  const rows = bars.map(({ name, middle, least, most }, index) => {
    const y = 34 + index * 26
    return `<text x="${left - 8}" y="${y + 13}" text-anchor="end">${escape(name)}</text><rect x="${left}" y="${y}" width="${Math.max(1, at(middle) - left).toFixed(1)}" height="18" fill="${colors[index % colors.length]}"/>` +
      `<line class="spread" x1="${at(least).toFixed(1)}" x2="${at(most).toFixed(1)}" y1="${y + 9}" y2="${y + 9}"/><text x="${at(Math.max(middle, most)) + 6}" y="${y + 13}">${short(middle)}</text>`
  })
  return `<text x="8" y="20" font-weight="600">${escape(title)}</text>${rows.join('')}<line class="axis" x1="${left}" x2="${left}" y1="30" y2="${34 + bars.length * 26}"/>`
}

function niceCeiling (value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return [1, 2, 5, 10].map((step) => step * power).find((ceiling) => ceiling >= value) ?? value
}

function short (value: number): string {
  if (value >= 1_000_000) return `${round(value / 1_000_000)} M`
  if (value >= 10_000) return `${round(value / 1_000)} k`
  return String(round(value))
}

function round (value: number): number {
  return value === 0 ? 0 : Number(value.toPrecision(3))
}

function escape (text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
