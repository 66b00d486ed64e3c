import { html, nothing } from '/lit-html/lit-html.js'
import { answers } from './answers.js'
import { eventsOf, messageOf, send, unreachable } from './service.js'
import { fullQuota, inFull, markRejection, refresh, secondsOf, usedOf } from './standing.js'
import { change, clearAnswer, state } from './state.js'

const leaf = html`<label
  >Term, or a code from the taxonomy <input name="leaf" value="FIN-INV" maxlength="200" required
/></label>`
const group = html`<label
  >Group
  <select name="parentCode">
    ${Object.entries({ FIN: 'Finance', HR: 'Human resources', OPS: 'Operations' }).map(
      ([code, name]) => html`<option value=${code}>${name}</option>`
    )}
  </select></label
>`
const operations = {
  analyze: { title: 'Analyze', method: 'POST', field: nothing },
  'justify-leaf': { title: 'Justify a term', method: 'POST', field: leaf },
  'analyze-node': { title: 'Score a group', method: 'GET', field: group },
  'analyze-stream': { title: 'Stream', method: 'GET', field: nothing }
}
const sample =
  'Our invoices went out late in March 2025. Customers in Berlin complain loudly! ' +
  'The warehouse lost two pallets, and nobody checked the stock. ' +
  "Still, Anna's training course was a great success."
const longest = 5000

/** Draws the form that runs an operation. */
export function runCard () {
  const full = fullQuota()
  const { operation, running, problem, length = sample.length } = state
  const progress =
    running !== null && state.waiting > 0 ? 'Waiting for a free place…' : state.progress
  return html` <section
    id="operations"
    class="card"
    aria-labelledby="operations-title"
    tabindex="-1"
  >
    <h2 id="operations-title">Run an operation</h2>
    <form id="run" @submit=${submit}>
      <fieldset
        @change=${({ target }) => {
          clearAnswer()
          change({ operation: target.value })
        }}
      >
        <legend>Operation</legend>
        ${Object.entries(operations).map(
          ([name, { title }]) =>
            html` <label
              ><input type="radio" name="operation" value=${name} ?checked=${name === 'analyze'} />
              <span>${title}</span></label
            >`
        )}
      </fieldset>
      <p class="address">${operations[operation].method} /api/${operation}</p>
      <label
        >Your text
        <textarea
          id="text"
          name="businessText"
          rows="7"
          maxlength=${longest}
          required
          aria-describedby="text-count"
          .defaultValue=${sample}
          @input=${({ target }) => {
            change({ length: target.value.length })
          }}
        ></textarea>
      </label>
      <p id="text-count" class="hint count">${inFull(length)} of ${inFull(longest)} characters</p>
      ${operations[operation].field}
      <div class="actions">
        <button id="run-button" aria-disabled=${running !== null || full !== undefined}>
          ${running ? 'Running…' : 'Run'}
        </button>
        <p id="progress" class="progress" role="status">${progress}</p>
      </div>
    </form>
    ${full === undefined ? nothing : limitReached(full)}
    ${problem === '' ? nothing : problemOf(problem)}
  </section>`
}

function problemOf (problem) {
  return html`<p id="problem" class="rejection" role="alert">${problem}</p>`
}

export function answerCard () {
  if (state.answer === null) return nothing
  const { operation, found } = state.answer
  return html`<section id="answer" class="card answer">
    <h2>Answer</h2>
    ${answers[operation](found)}
  </section>`
}

function limitReached (full) {
  return html` <div id="limit-reached" class=${state.rejection === '' ? 'notice' : 'rejection'}>
    <p id="limit-message" role="alert">${state.rejection || `Limit reached: ${usedOf(full)}.`}</p>
    <p id="wait">Run again in ${secondsOf(full.left)}.</p>
    <button
      id="anyway"
      type="button"
      class="link"
      @click=${() => run(document.getElementById('run'))}
    >
      Send one anyway
    </button>
  </div>`
}

// The button is not `disabled`, so that it keeps the keyboard focus.
function submit (event) {
  event.preventDefault()
  if (fullQuota() === undefined) run(event.target)
}

async function run (form) {
  if (state.running !== null) return
  clearAnswer()
  const { operation, ...fields } = Object.fromEntries(new FormData(form))
  const { method } = operations[operation]
  const running = new AbortController()
  const { signal } = running
  change({ running, progress: 'The model is reading…' })
  try {
    const query = method === 'GET' ? `?${new URLSearchParams(fields)}` : ''
    const response = await send(`/api/${operation}${query}`, {
      method,
      signal,
      ...(method === 'POST' && { body: fields })
    })
    if (!response.ok) await explain(response)
    else if (operation === 'analyze-stream') await showStream(response)
    else change({ answer: { operation, found: await response.json() }, progress: 'Done.' })
  } catch {
    if (!signal.aborted) change({ progress: '', problem: unreachable })
  }
  if (signal.aborted) return
  await refresh()
  change({ running: null })
}

async function explain (response) {
  const message = await messageOf(response)
  if (response.status === 429) {
    markRejection()
    await refresh()
  }
  change({
    progress: '',
    [response.status === 429 && fullQuota() !== undefined ? 'rejection' : 'problem']: message
  })
}

async function showStream (response) {
  const found = []
  let end = { event: 'cut', data: { error: 'The connection was cut.' } }
  try {
    for await (const { event, data } of eventsOf(response)) {
      if (event !== 'sentence') end = { event, data }
      else {
        change({
          progress: `Sentence ${found.push(data)} has arrived.`,
          answer: { operation: 'analyze-stream', found: [...found] }
        })
      }
    }
  } catch {}
  if (end.event === 'end') change({ progress: 'Done.' })
  else {
    change({
      progress: '',
      problem: `${end.data.error} The answer is incomplete: it has ${found.length} sentences.`
    })
  }
}
