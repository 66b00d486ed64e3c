import { byId, element } from './document.js'
import { inFull, secondsOf } from './numbers.js'
import { messageOf, send, unreachable } from './service.js'
import type { QuotaWindow } from './standing.js'

type Counts = Omit<QuotaWindow, 'marks'>

/** The windows of all callers, as sent by the service. */
export interface Callers {
  readonly limit: number
  readonly trackedCallers: number | null
  readonly callers: readonly Counts[]
  /** The number of callers that are not included. */
  readonly more: number
  readonly overflow: Counts | null
}

interface Row {
  readonly element: HTMLElement
  show (counts: Counts, limit: number, remaining: number): void
}

const perMinute = 'rate-limit.per-minute'
const section = byId('administration', HTMLElement)
const form = byId('limit-form', HTMLFormElement)
const field = byId('limit', HTMLInputElement)
const inForce = byId('in-force', HTMLElement)
const status = byId('limit-status', HTMLElement)
const confirmation = byId('switch-off', HTMLDialogElement)
const caption = byId('callers-caption', HTMLElement)
const body = byId('callers', HTMLElement)
const overflowUnused = element('tr', { role: 'row' }, nameCell('Overflow, shared by all others'), element('td', { role: 'cell', colspan: 4 }, 'not in use'))

let shown: { readonly state: Callers, readonly at: number } | undefined
let preference: number | null | undefined
let rows = new Map<string, Row>()

/** Starts the form that changes the limit, and the countdowns in the table. */
export function offerAdministration (): void {
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    if (field.valueAsNumber === 0) confirmation.showModal()
    else change(field.valueAsNumber).catch(cannotChange)
  })
  confirmation.addEventListener('close', () => {
    if (confirmation.returnValue === 'off') change(0).catch(cannotChange)
    confirmation.returnValue = ''
  })
  byId('configured', HTMLButtonElement).addEventListener('click', () => { change(null).catch(cannotChange) })
  setInterval(draw, 500)
}

/** Shows the windows of all callers to an administrator. */
export function showCallers (state: Callers): void {
  const changed = shown?.state.limit !== state.limit
  if (changed && document.activeElement !== field) field.value = String(state.limit)
  shown = { state, at: performance.now() }
  section.hidden = false
  draw()
  if (changed) showPreference().catch(cannotChange)
}

/** Shows the limit that an administrator has set, which can differ from the effective limit. */
export async function showPreference (): Promise<void> {
  const response = await send('/api/preferences')
  preference = response.ok ? (await response.json())[perMinute] : undefined
  draw()
}

/** Hides the section for administrators. */
export function hideAdministration (): void {
  shown = undefined
  preference = undefined
  section.hidden = true
  status.textContent = ''
  confirmation.close()
  rows = new Map()
  body.replaceChildren()
}

async function change (limit: number | null): Promise<void> {
  const response = await send('/api/preferences', { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ [perMinute]: limit }) })
  if (response.ok) preference = limit
  status.textContent = response.ok ? said(limit) : await messageOf(response)
  draw()
}

function said (limit: number | null): string {
  if (limit === null) return 'The configured limit applies again.'
  return limit === 0 ? 'The quota is disabled.' : `The limit is ${withReading(limit)} now.`
}

// A negative number counts as 1.
function withReading (limit: number): string {
  return limit < 0 ? `1 (${inFull(limit)} counts as 1)` : inFull(limit)
}

async function forget (caller: string, digest: string): Promise<void> {
  const response = await send(`/api/callers/${digest}`, { method: 'DELETE' })
  status.textContent = response.ok ? `The caller ${caller} starts with a new window.` : await messageOf(response)
  field.focus()
}

function cannotChange (): void {
  status.textContent = unreachable
}

function draw (): void {
  if (shown === undefined) return
  const { state, at } = shown
  const passed = performance.now() - at
  inForce.textContent = describeLimit(state.limit)
  caption.textContent = describeCallers(state)
  const open = [...state.callers, ...(state.overflow === null ? [] : [state.overflow])].filter(({ remaining }) => remaining > passed)
  const kept = new Map(open.map((counts) => [counts.caller, rows.get(counts.caller) ?? row(counts)]))
  for (const counts of open) kept.get(counts.caller)?.show(counts, state.limit, counts.remaining - passed)
  rows = kept
  const wanted = [...[...kept.values()].map((row) => row.element), ...(kept.has('overflow') ? [] : [overflowUnused])]
  // Existing rows are not recreated, so that they keep the keyboard focus.
  if (wanted.length !== body.children.length || wanted.some((element, index) => body.children[index] !== element)) body.replaceChildren(...wanted)
}

function describeLimit (limit: number): string {
  if (limit === 0) return 'The quota is disabled.'
  if (preference === null) return `Effective limit: ${inFull(limit)}, as configured.`
  return `Effective limit: ${preference !== undefined && preference < 0 ? withReading(preference) : inFull(limit)}.`
}

function describeCallers ({ trackedCallers, more }: Callers): string {
  const tracked = trackedCallers === null ? 'The store does not answer.' : `Callers with a counter: ${inFull(trackedCallers)}.`
  return `${tracked} Windows that this instance has seen${more > 0 ? `; ${inFull(more)} more are not shown` : ''}:`
}

function row ({ caller, digest }: Counts): Row {
  const meter = element('meter', { min: 0, 'aria-hidden': 'true' })
  const [admitted, rejected, remains] = [element('span'), element('td', { role: 'cell', 'data-label': 'Rejected' }), element('td', { role: 'cell', 'data-label': 'Window ends in' })]
  const button = element('button', { class: 'quiet small', type: 'button', 'aria-label': `Forget ${caller}` }, 'Forget')
  if (digest !== null) button.addEventListener('click', () => { forget(caller, digest).catch(cannotChange) })
  return {
    element: element('tr', { role: 'row' },
      nameCell(digest === null ? 'Overflow, shared by all others' : element('code', {}, caller)),
      element('td', { role: 'cell', 'data-label': 'Admitted' }, element('span', { class: 'gauge' }, meter, admitted)),
      rejected, remains,
      element('td', { role: 'cell', class: 'action' }, ...(digest === null ? [] : [button]))),
    show (counts, limit, remaining) {
      meter.setAttribute('max', String(Math.max(limit, counts.admitted, 1)))
      meter.setAttribute('value', String(counts.admitted))
      admitted.textContent = ofLimit(counts.admitted, limit)
      rejected.textContent = inFull(counts.rejected)
      remains.textContent = secondsOf(remaining)
    }
  }
}

function ofLimit (admitted: number, limit: number): string {
  if (limit === 0) return `${inFull(admitted)}, no limit`
  return admitted > limit ? `${inFull(admitted)}, limit now ${inFull(limit)}` : `${inFull(admitted)} of ${inFull(limit)}`
}

function nameCell (name: Node | string): HTMLElement {
  return element('th', { scope: 'row', role: 'rowheader' }, name)
}
