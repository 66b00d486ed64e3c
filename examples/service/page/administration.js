import { html, nothing } from '/lit-html/lit-html.js'
import { bar } from './bar.js'
import { messageOf, send, unreachable } from './service.js'
import { inFull, refresh, secondsOf } from './standing.js'
import { change, state } from './state.js'

const fields = [
  { quota: 'default', key: 'rate-limit.per-minute', label: 'Requests a minute' },
  { quota: 'tokens', key: 'rate-limit.tokens.per-minute', label: 'Tokens a minute' },
  { quota: 'concurrency', key: 'rate-limit.concurrency.concurrent', label: 'Concurrent requests' }
]
const limitOf = (name) => state.quotas?.find(({ quota }) => quota === name)?.limit ?? 0

/** Draws the limits and the callers, for an administrator. */
export function administration () {
  const tokens = limitOf('tokens')
  const titles = [
    'Caller',
    'Admitted',
    ...(tokens === 0 ? [] : ['Tokens']),
    'Window ends in',
    'Action'
  ]
  return html` <section id="administration" class="card" aria-labelledby="administration-title">
    <h2 id="administration-title" tabindex="-1">All callers</h2>
    <form id="limit-form" @submit=${submit}>
      <div class="limits">${fields.map(field)}</div>
      <button>Change the limits</button>
      <button class="quiet" type="button" @click=${reset}>Use the configured limits</button>
      <p id="limit-hint" class="hint">
        A change applies from the next request. 0 disables a quota; a negative number counts as 1.
      </p>
      <p id="limit-status" role="status">${state.limitStatus}</p>
    </form>
    <p id="callers-caption" class="hint">
      Callers with a counter: ${inFull(state.trackedCallers)}. Those with an open window:
    </p>
    <table role="table" aria-labelledby="administration-title" aria-describedby="callers-caption">
      <thead role="rowgroup">
        <tr role="row">
          ${titles.map((title) => html`<th role="columnheader" scope="col">${title}</th>`)}
        </tr>
      </thead>
      <tbody id="callers" role="rowgroup">
        ${state.callers.map(row)}
      </tbody>
    </table>
  </section>`
}

function field ({ quota, key, label }) {
  const limit = limitOf(quota)
  const origin = state.preferences[key] === null ? ', as configured' : ''
  const inForce = (limit === 0 ? 'Off' : `In force: ${inFull(limit)}`) + origin
  return html` <div>
    <label
      >${label}
      <input
        name=${key}
        type="number"
        step="1"
        min=${Number.MIN_SAFE_INTEGER}
        max=${Number.MAX_SAFE_INTEGER}
        required
        value=${limit}
        aria-describedby="${quota}-in-force limit-hint"
    /></label>
    <p id="${quota}-in-force" class="hint">${inForce}</p>
  </div>`
}

const none = { count: 0, held: 0, windowRemaining: 0 }

function row ({ callerKey, quotas }) {
  const name = callerKey.slice(0, 8)
  const requests = quotas.default ?? none
  const tokens = quotas.tokens ?? none
  const limits = { requests: limitOf('default'), tokens: limitOf('tokens') }
  const left = Math.max(requests.windowRemaining, tokens.windowRemaining)
  return html` <tr role="row">
    <th scope="row" role="rowheader"><code>${name}</code></th>
    <td role="cell" data-label="Admitted">${gauge(requests, limits.requests)}</td>
    ${
      limits.tokens === 0
        ? nothing
        : html`<td role="cell" data-label="Tokens">${gauge(tokens, limits.tokens)}</td>`
    }
    <td role="cell" data-label="Window ends in">${secondsOf(left)}</td>
    <td role="cell">
      <button
        class="quiet small"
        aria-label="Forget ${name}"
        @click=${() => forget(callerKey, name)}
      >
        Forget
      </button>
    </td>
  </tr>`
}

function gauge ({ count, held }, limit) {
  const drawn = limit === 0 ? nothing : bar({ count, held, limit })
  return html`<span class="gauge">${drawn}<span>${amounts({ count, held }, limit)}</span></span>`
}

function amounts ({ count, held }, limit) {
  const used = inFull(count - held)
  const inProgress = held === 0 ? '' : `, ${inFull(held)} held`
  if (limit === 0) return `${used}${inProgress}, no limit`
  if (count > limit) return `${used}${inProgress}, limit now ${inFull(limit)}`
  return `${used} of ${inFull(limit)}${inProgress}`
}

function submit (event) {
  event.preventDefault()
  const changed = [...event.target.querySelectorAll('input')].filter(
    ({ value, defaultValue }) => value !== defaultValue
  )
  if (changed.length === 0) return change({ limitStatus: 'Enter another limit first.' })
  if (
    changed.some(({ value }) => Number(value) === 0) &&
    !window.confirm('A limit of 0 switches a quota off. Continue?')
  ) {
    return
  }
  save(
    Object.fromEntries(changed.map(({ name, valueAsNumber }) => [name, valueAsNumber])),
    'The limits have changed.'
  )
}

const reset = () =>
  save(
    Object.fromEntries(fields.map(({ key }) => [key, null])),
    'The configured limits apply again.'
  )

async function save (limits, success) {
  await report(send('/api/preferences', { method: 'PUT', body: limits }), success)
  document.getElementById('limit-form')?.reset()
}

async function forget (callerKey, name) {
  await report(
    send(`/api/callers/${callerKey}`, { method: 'DELETE' }),
    `The caller ${name} starts with a new window.`
  )
  // If the row was the last one, its button had the focus.
  if (document.activeElement === document.body) {
    document.getElementById('administration-title')?.focus()
  }
}

// Shows whether a change succeeded, and its effect.
async function report (sent, success) {
  const response = await sent.catch(() => null)
  change({
    limitStatus: response === null ? unreachable : response.ok ? success : await messageOf(response)
  })
  await refresh()
}
