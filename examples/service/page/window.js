import { html, nothing, svg } from '/lit-html/lit-html.js'
import { bar } from './bar.js'
import { state } from './state.js'
import { endOf, inFull, standingNow, usedOf, windowLength } from './standing.js'

const plot = { left: 52, right: 612, top: 34, bottom: 252 }
// Rejections are drawn in a separate lane above the counts.
const rejectionLane = 16

const x = (at) => plot.left + ((plot.right - plot.left) * at) / windowLength

/** Draws where the caller stands in each quota that is on. */
export function windowCard () {
  const quotas = standingNow()
  const requests = quotas.find(({ quota }) => quota === 'default')
  const isUnlimited = state.quotas !== null && quotas.length === 0
  const noQuota = 'No quota is on: requests are not limited or counted.'
  return html` <section id="window-card" class="card" aria-labelledby="window-title">
    <h2 id="window-title">${quotas.length > 1 ? 'Your windows' : 'Your window'}</h2>
    ${state.quotas === null || requests !== undefined ? requestsOf(requests) : nothing}
    ${quotas
      .filter((quota) => quota !== requests)
      .map(
        (quota) =>
          html` <div class="quota" data-quota=${quota.quota}>
            <h3>${quota.title}</h3>
            ${bar(quota)}
            <p class="summary">${usedOf(quota)}${endOf(quota)}.</p>
          </div>`
      )}
    ${isUnlimited ? html`<p class="summary">${noQuota}</p>` : nothing}
    <p class="hint" role="status">${state.isInterrupted ? 'Live updates are interrupted.' : ''}</p>
  </section>`
}

function requestsOf (standing) {
  return html` <svg
      id="timeline"
      viewBox="0 0 640 300"
      role="img"
      aria-labelledby="window-title"
      aria-describedby="summary"
    >
      ${chart(standing)}
    </svg>
    <p id="summary" class="summary">${describe(standing)}</p>
    <ul class="legend" aria-label="Legend">
      <li><span class="mark admitted" aria-hidden="true"></span> admitted</li>
      <li><span class="mark rejected" aria-hidden="true">×</span> rejected</li>
      <li><span class="mark limit" aria-hidden="true"></span> limit</li>
    </ul>`
}

function describe (standing) {
  if (standing === undefined) return 'Sign in to see your window.'
  if (standing.left === 0) return 'No window is open: the next request opens one.'
  const { count, limit } = standing
  const rejected = state.marks.filter((mark) => !mark.admitted).length
  const ofLimit =
    count > limit ? ` admitted; the limit is ${inFull(limit)} now` : ` of ${inFull(limit)} admitted`
  const earlier = earlierOf(count)
  const unseen =
    earlier === 0 ? '' : `, ${inFull(earlier)} of them at a time that this page has not seen`
  return `${inFull(count)}${ofLimit}${unseen}, ${inFull(rejected)} rejected${endOf(standing)}.`
}

/** How many requests of the window had been admitted before this page saw it. */
const earlierOf = (count) =>
  Math.max(0, count - state.marks.filter(({ admitted }) => admitted).length)

function chart ({ limit, count, left } = { limit: 0, count: 0, left: 0 }) {
  // A limit far above the counts would flatten them. Its line is then drawn at the top, with a
  // label that says so.
  const toScale = limit <= Math.max(100, count * 10)
  const most = Math.max(toScale ? limit : 0, count, 4) * 1.1
  const y = (value) => plot.bottom - ((plot.bottom - plot.top) * value) / most
  const label = `limit ${inFull(limit)}${toScale ? '' : ', above this scale'}`
  return svg`
    ${[0, 1, 2, 3, 4, 5]
      .map((tick) => tick * Math.ceil(most / 5))
      .filter((value) => value <= most)
      .map(
        (value) => svg`
      <line class="axis" x1=${plot.left} x2=${plot.right} y1=${y(value)} y2=${y(value)} />
      <text x=${plot.left - 8} y=${y(value) + 5} text-anchor="end">${inFull(value)}</text>`
      )}
    ${[0, 15, 30, 45, 60].map(
      (second) => svg`
      <text x=${x(second * 1000)} y=${plot.bottom + 36} text-anchor="middle">${second} s</text>`
    )}
    ${left > 0 ? requestsIn(windowLength - left, count, y) : nothing}
    ${limit > 0 ? limitLine(toScale ? y(limit) : plot.top, label) : nothing}`
}

function limitLine (y, label) {
  return svg`<line class="limit" x1=${plot.left} x2=${plot.right} y1=${y} y2=${y} />
    <text class="limit-label" x=${plot.right} y=${y - 7} text-anchor="end">${label}</text>`
}

function requestsIn (now, total, y) {
  let count = earlierOf(total)
  const from = x(state.seenFrom)
  let path = `M ${from} ${y(count)}`
  const points = state.marks.map(({ at, admitted }) => {
    if (!admitted) {
      const cross = `M ${x(at) - 5} ${rejectionLane - 5} l 10 10 m 0 -10 l -10 10`
      return svg`<path class="rejected" d=${cross} />`
    }
    path += ` H ${x(at)} V ${y(++count)}`
    return svg`<circle class="admitted" cx=${x(at)} cy=${y(count)} r="6" />`
  })
  path += ` H ${x(now)}`
  return svg`
    <path class="area" d=${`${path} V ${plot.bottom} H ${from} Z`} />
    <path class="steps" d=${path} />
    <line class="now" x1=${x(now)} x2=${x(now)} y1=${plot.top} y2=${plot.bottom} />
    ${points}`
}
