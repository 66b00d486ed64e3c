import { byId, setText } from './document.js'
import { inFull, inShort } from './numbers.js'
import { endOf } from './quotas.js'
import { type Now, onStanding, type QuotaNow } from './standing.js'

const drawing = byId('timeline', SVGSVGElement)
const summary = byId('summary', HTMLElement)

const windowLength = 60_000
const plot = { left: 52, right: 626, top: 34, bottom: 252 }
// Rejections are drawn in a separate lane above the counts.
const rejectionLane = 16

/** Draws the caller's own window, and updates it as time passes. */
export function keepTimeline (): void {
  onStanding(draw)
}

function draw (now: Now | undefined): void {
  setText(summary, describe(now))
  const { limit = 0, count: admitted = 0 } = requestsOf(now) ?? {}
  // A limit far above the counts would flatten them. Its line is then drawn at the top, with a label that says so.
  const toScale = limit <= Math.max(100, admitted * 10)
  const most = Math.max(toScale ? limit : 0, admitted, 4) * 1.1
  const x = (at: number): number => plot.left + (plot.right - plot.left) * at / windowLength
  const y = (count: number): number => plot.bottom - (plot.bottom - plot.top) * count / most
  drawing.replaceChildren(
    ...axes(x, y, most),
    ...(now === undefined ? [] : requests(now, x, y)),
    ...(limit === 0 ? [] : limitLine(limit, toScale ? y(limit) : plot.top, toScale)))
}

function describe (now: Now | undefined): string {
  const standing = requestsOf(now)
  if (now === undefined || standing === undefined) return 'Sign in to see your window.'
  const { limit, count: admitted, left, isShared } = standing
  const { rejected } = now
  if (left === 0) return 'No window is open: the next request opens one.'
  const counts = admitted > limit ? `${inFull(admitted)} admitted; the limit is ${inFull(limit)} now, ${inFull(rejected)} rejected` : `${inFull(admitted)} of ${inFull(limit)} admitted, ${inFull(rejected)} rejected`
  return `${counts}${isShared ? ', shared with others' : ''}${endOf(standing, now)}.`
}

function requestsOf (now: Now | undefined): QuotaNow | undefined {
  return now?.quotas.find(({ quota }) => quota === 'default')
}

function axes (x: (at: number) => number, y: (count: number) => number, most: number): SVGElement[] {
  const seconds = [0, 15, 30, 45, 60].map((second) => text(x(second * 1000), plot.bottom + 36, `${second} s`, { 'text-anchor': second === 60 ? 'end' : 'middle' }))
  const power = 10 ** Math.floor(Math.log10(most / 5))
  const step = Math.max(1, power * ([1, 2, 5].find((factor) => most / (power * factor) <= 5) ?? 10))
  const counts = Array.from({ length: Math.floor(most / step) + 1 }, (_, index) => index * step).flatMap((count) => [
    shape('line', { class: 'axis', x1: plot.left, x2: plot.right, y1: y(count), y2: y(count) }),
    text(plot.left - 8, y(count) + 5, inShort(count), { 'text-anchor': 'end' })
  ])
  return [...counts, ...seconds]
}

function requests (standing: Now, x: (at: number) => number, y: (count: number) => number): SVGElement[] {
  const { marks } = standing
  const { count: admitted = 0, left = 0 } = requestsOf(standing) ?? {}
  if (left === 0) return []
  const now = windowLength - left
  let count = Math.max(0, admitted - marks.filter((mark) => mark.admitted).length)
  let path = `M ${x(0)} ${y(count)}`
  const points: SVGElement[] = []
  for (const { at, admitted } of marks) {
    if (admitted) {
      path += ` H ${x(at)} V ${y(++count)}`
      points.push(shape('circle', { class: 'admitted', cx: x(at), cy: y(count), r: 6 }))
    } else {
      points.push(shape('path', { class: 'rejected', d: `M ${x(at) - 5} ${rejectionLane - 5} l 10 10 m 0 -10 l -10 10` }))
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

function limitLine (limit: number, at: number, toScale: boolean): SVGElement[] {
  return [
    shape('line', { class: 'limit', x1: plot.left, x2: plot.right, y1: at, y2: at }),
    text(plot.right, at - 7, toScale ? `limit ${inShort(limit)}` : `limit ${inShort(limit)}, above this scale`, { class: 'limit-label', 'text-anchor': 'end' })
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
