import { byId } from './document.js'

/** A caller's window, as the service tells of it. */
export interface QuotaWindow {
  readonly caller: string
  readonly admitted: number
  readonly refused: number
  readonly limit: number
  /** Milliseconds. */
  readonly remaining: number
  readonly marks: readonly { readonly at: number, readonly admitted: boolean }[]
}

const drawing = byId('timeline', SVGSVGElement)
const summary = byId('summary', HTMLElement)

const windowLength = 60_000
const plot = { left: 44, right: 626, top: 34, bottom: 258 }
// Refusals stand in a lane of their own above the counts.
const refusalLane = 16

let shown: { readonly window: QuotaWindow | null, readonly limit: number, readonly endsAt: number } | undefined

/** Draws one's own window and goes on moving it with the time. */
export function showWindow (window: QuotaWindow | null, limit: number): void {
  shown = { window, limit, endsAt: performance.now() + (window?.remaining ?? 0) }
  draw()
}

/** Shows that there is nobody whose window it could be. */
export function forgetWindow (): void {
  shown = undefined
  draw()
}

export function keepTime (): void {
  setInterval(draw, 500)
}

function draw (): void {
  const remaining = shown === undefined ? 0 : shown.endsAt - performance.now()
  const window = remaining > 0 ? shown?.window ?? null : null
  const limit = shown?.limit ?? 0
  summary.textContent = describe(window, limit, remaining)
  const most = Math.max(limit, window?.admitted ?? 0, 4) * 1.1
  const x = (at: number): number => plot.left + (plot.right - plot.left) * at / windowLength
  const y = (count: number): number => plot.bottom - (plot.bottom - plot.top) * count / most
  drawing.replaceChildren(...axes(x, y, most), ...(window === null ? [] : requests(window, x, y, windowLength - remaining)), ...(shown === undefined || limit === 0 ? [] : limitLine(limit, y)))
}

function describe (window: QuotaWindow | null, limit: number, remaining: number): string {
  if (shown === undefined) return 'Sign in to see it.'
  if (limit === 0) return 'The quota is switched off.'
  if (window === null) return `No window is open: the next request opens one. The limit is ${limit} a minute.`
  const whose = window.caller === 'overflow' ? ', shared with others' : ''
  return `${window.admitted} of ${limit} admitted, ${window.refused} refused${whose}; the window ends in ${Math.ceil(remaining / 1000)} s.`
}

function axes (x: (at: number) => number, y: (count: number) => number, most: number): SVGElement[] {
  const seconds = [0, 15, 30, 45, 60].map((second) => text(x(second * 1000), plot.bottom + 28, `${second} s`, { 'text-anchor': second === 60 ? 'end' : 'middle' }))
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000].find((candidate) => most / candidate <= 5) ?? most
  const counts = Array.from({ length: Math.floor(most / step) + 1 }, (_, index) => index * step).flatMap((count) => [
    shape('line', { class: 'axis', x1: plot.left, x2: plot.right, y1: y(count), y2: y(count) }),
    text(plot.left - 8, y(count) + 5, String(count), { 'text-anchor': 'end' })
  ])
  return [...counts, ...seconds]
}

function requests ({ marks, admitted }: QuotaWindow, x: (at: number) => number, y: (count: number) => number, now: number): SVGElement[] {
  let count = Math.max(0, admitted - marks.filter((mark) => mark.admitted).length)
  let path = `M ${x(0)} ${y(count)}`
  const points: SVGElement[] = []
  for (const { at, admitted } of marks) {
    if (admitted) {
      path += ` H ${x(at)} V ${y(++count)}`
      points.push(shape('circle', { class: 'admitted', cx: x(at), cy: y(count), r: 6 }))
    } else {
      points.push(shape('path', { class: 'refused', d: `M ${x(at) - 5} ${refusalLane - 5} l 10 10 m 0 -10 l -10 10` }))
    }
  }
  path += ` H ${x(now)}`
  return [
    shape('path', { class: 'area', d: `${path} V ${plot.bottom} H ${plot.left} Z` }),
    shape('path', { class: 'steps', d: path }),
    shape('line', { class: 'now', x1: x(now), x2: x(now), y1: plot.top, y2: plot.bottom }),
    ...points
  ]
}

function limitLine (limit: number, y: (count: number) => number): SVGElement[] {
  return [
    shape('line', { class: 'limit', x1: plot.left, x2: plot.right, y1: y(limit), y2: y(limit) }),
    text(plot.right, y(limit) - 7, `limit ${limit}`, { class: 'limit-label', 'text-anchor': 'end' })
  ]
}

function text (x: number, y: number, content: string, attributes: Record<string, string>): SVGElement {
  const made = shape('text', { x, y, ...attributes })
  made.textContent = content
  return made
}

function shape (name: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name)
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, String(value))
  return made
}
