import { type Sentence, showAnalysis, showJustification, showScores, showSentence } from './answers.js'
import { byId, element } from './document.js'
import { counted, secondsOf } from './numbers.js'
import { canRun, setRunning, showRejection } from './run-button.js'
import { eventsOf, messageOf, send, unreachable } from './service.js'
import { refreshStanding } from './standing.js'
import { countText } from './text-limit.js'

const form = byId('run', HTMLFormElement)
const address = byId('address', HTMLElement)
const actions = byId('actions', HTMLElement)
const problem = byId('problem', HTMLElement)
const progress = byId('progress', HTMLElement)
const card = byId('answer-card', HTMLElement)
const answer = byId('answer', HTMLElement)

interface Operation {
  readonly method: 'GET' | 'POST'
  readonly fields: readonly string[]
  readonly show: (response: Response) => Promise<void>
}

/** The error for a stream that ended early. The part that has arrived stays visible. */
class IncompleteAnswer extends Error {}

const operations: Record<string, Operation> = {
  analyze: { method: 'POST', fields: ['businessText'], show: async (response) => { answer.replaceChildren(...showAnalysis(await response.json())) } },
  'justify-leaf': { method: 'POST', fields: ['businessText', 'leaf'], show: async (response) => { answer.replaceChildren(...showJustification(await response.json())) } },
  'analyze-node': { method: 'GET', fields: ['businessText', 'parentCode'], show: async (response) => { answer.replaceChildren(...showScores(await response.json())) } },
  'analyze-stream': { method: 'GET', fields: ['businessText'], show: showStream }
}

let current: AbortController | undefined
let unauthenticated: () => Promise<boolean>

/** Starts the form that runs the selected operation. `hasSessionEnded` returns whether the session has ended. */
export function offerOperations (hasSessionEnded: () => Promise<boolean>): void {
  unauthenticated = hasSessionEnded
  form.addEventListener('input', () => { countText(chosen().operation.method) })
  form.addEventListener('change', ({ target }) => {
    if (target instanceof HTMLInputElement && target.name === 'operation') choose()
  })
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    if (canRun()) run()
  })
  byId('anyway', HTMLButtonElement).addEventListener('click', () => {
    if (current === undefined && form.reportValidity()) run()
  })
  choose()
}

/** Removes the results of earlier operations, and aborts the current one. */
export function clearAnswer (): void {
  current?.abort()
  current = undefined
  setRunning(false)
  problem.hidden = true
  progress.textContent = ''
  card.hidden = true
  answer.replaceChildren()
}

function chosen (): { name: string, operation: Operation, fields: Record<string, string> } {
  const values = new FormData(form)
  const name = String(values.get('operation'))
  const operation = operations[name]
  if (operation === undefined) throw new Error(`there is no operation ${name}`)
  return { name, operation, fields: Object.fromEntries(operation.fields.map((field) => [field, String(values.get(field))])) }
}

// Fields that the operation does not have are hidden and not required.
function choose (): void {
  clearAnswer()
  const { name, operation } = chosen()
  address.textContent = `${operation.method} /api/${name}`
  for (const label of form.querySelectorAll<HTMLElement>('[data-for]')) {
    label.hidden = label.dataset['for'] !== name
    for (const field of label.querySelectorAll<HTMLInputElement | HTMLSelectElement>('input, select')) field.disabled = label.hidden
  }
  countText(operation.method)
}

function run (): void {
  clearAnswer()
  const mine = new AbortController()
  current = mine
  setRunning(true)
  progress.textContent = 'The model is reading…'
  attempt(mine.signal)
    .catch((error: unknown) => { if (!mine.signal.aborted) fail(error instanceof IncompleteAnswer ? error.message : unreachable) })
    .finally(() => {
      if (mine.signal.aborted) return
      current = undefined
      setRunning(false)
      reveal()
    })
    .catch(reportError)
}

async function attempt (signal: AbortSignal): Promise<void> {
  const { name, operation, fields } = chosen()
  const response = operation.method === 'POST'
    ? await send(`/api/${name}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(fields), signal })
    : await send(`/api/${name}?${new URLSearchParams(fields).toString()}`, { signal })
  if (response.ok) {
    card.hidden = false
    await operation.show(response)
    // The event stream also updates the window, unless another instance admitted the request.
    await refreshStanding().catch(() => {})
    if (!signal.aborted) progress.textContent = 'Done.'
  } else {
    await explain(response, signal)
  }
}

async function explain (response: Response, signal: AbortSignal): Promise<void> {
  const message = await messageOf(response)
  if (response.status === 401 && await unauthenticated()) return
  if (response.status === 429) await refreshStanding()
  if (signal.aborted) return
  progress.textContent = ''
  if (response.status === 429 && showRejection(message)) return
  const seconds = Number(response.headers.get('retry-after'))
  fail(seconds > 0 ? message.replace(/Please (try again|wait)/, `Please try again in ${secondsOf(seconds * 1000)}`) : message)
}

function fail (message: string): void {
  progress.textContent = ''
  problem.hidden = false
  problem.textContent = message
}

async function showStream (response: Response): Promise<void> {
  const list = element('ol')
  answer.replaceChildren(element('h3', {}, 'Sentence by sentence'), list)
  const cut = (reason: string): Error => new IncompleteAnswer(`${reason} The answer is incomplete: it ended after ${counted(list.childElementCount, 'sentence')}.`)
  let complete = false
  try {
    for await (const { event, data } of eventsOf(response)) {
      if (event === 'end') complete = true
      if (event === 'error') throw cut(errorOf(data))
      if (event !== 'sentence') continue
      list.append(showSentence(data as Sentence))
      progress.textContent = `Sentence ${list.childElementCount} has arrived.`
    }
  } catch (error) {
    if (error instanceof IncompleteAnswer) throw error
  }
  if (!complete) throw cut('The connection was cut.')
}

function errorOf (data: unknown): string {
  return typeof data === 'object' && data !== null && 'error' in data ? String(data.error) : 'The model failed.'
}

// Scrolls so that the button, the window and the answer are visible together on a small screen.
function reveal (): void {
  if (!window.matchMedia('(max-width: 56rem)').matches) return
  const calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches
  actions.scrollIntoView({ block: 'start', behavior: calm ? 'auto' : 'smooth' })
}
