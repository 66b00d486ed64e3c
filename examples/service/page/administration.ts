import { byId, element, setText } from './document.js'
import { inFull, secondsOf } from './numbers.js'
import { messageOf, send, unreachable } from './service.js'

/** A caller's window in the default quota, as seen by the service. */
interface Counts {
  readonly caller: string
  /** Null for the overflow counter. */
  readonly digest: string | null
  readonly admitted: number
  readonly rejected: number
  /** Milliseconds until the window ends. */
  readonly remaining: number
}

/** A limit, as sent by the service. */
interface Limit {
  /** The effective limit; 0 if the quota is disabled. */
  readonly effective: number
  /** The value that an administrator has set; null if the configured limit applies, and undefined if it cannot be read. */
  readonly preference?: unknown
}

/** The windows of all callers, as sent by the service. */
export interface Callers {
  /** The limits by the keys of their preferences. */
  readonly limits: Readonly<Record<string, Limit>>
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
const fields = [...form.querySelectorAll('input')]
const status = byId('limit-status', HTMLElement)
const confirmation = byId('switch-off', HTMLDialogElement)
const title = byId('administration-title', HTMLElement)
const caption = byId('callers-caption', HTMLElement)
const body = byId('callers', HTMLElement)
const overflowUnused = element('tr', { role: 'row' }, nameCell('Overflow, shared by all others'), element('td', { role: 'cell', colspan: 4 }, 'not in use'))

let shown: { readonly state: Callers, readonly at: number } | undefined
let rows = new Map<string, Row>()

/** Starts the form that changes the limits, and the countdowns in the table. */
export function offerAdministration (): void {
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    if (Object.values(entered()).includes(0)) confirmation.showModal()
    else change(entered()).catch(cannotChange)
  })
  confirmation.addEventListener('close', () => {
    if (confirmation.returnValue === 'off') change(entered()).catch(cannotChange)
    confirmation.returnValue = ''
  })
  byId('configured', HTMLButtonElement).addEventListener('click', () => { change(Object.fromEntries(fields.map(({ name }) => [name, null]))).catch(cannotChange) })
  setInterval(draw, 500)
}

/** Shows the limits and the windows of all callers to an administrator. */
export function showCallers (state: Callers): void {
  for (const field of fields) {
    const value = String(state.limits[field.name]?.effective ?? '')
    const isUnchanged = field.defaultValue === value || document.activeElement === field
    field.defaultValue = value
    if (!isUnchanged) field.value = value
  }
  shown = { state, at: performance.now() }
  section.hidden = false
  draw()
}

/** Hides the section for administrators. */
export function hideAdministration (): void {
  shown = undefined
  section.hidden = true
  status.textContent = ''
  confirmation.close()
  rows = new Map()
  body.replaceChildren()
}

// The limits in the form that differ from the effective ones.
function entered (): Record<string, number> {
  return Object.fromEntries(fields.filter(({ value, defaultValue }) => value !== defaultValue).map(({ name, valueAsNumber }) => [name, valueAsNumber]))
}

async function change (limits: Record<string, number | null>): Promise<void> {
  const response = await send('/api/preferences', { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(limits) })
  if (!response.ok) status.textContent = await messageOf(response)
  else status.textContent = Object.values(limits).includes(null) ? 'The configured limits apply again.' : 'The limits are changed.'
}

async function forget (caller: string, digest: string, button: HTMLButtonElement): Promise<void> {
  const response = await send(`/api/callers/${digest}`, { method: 'DELETE' })
  status.textContent = response.ok ? `The caller ${caller} starts with a new window.` : await messageOf(response)
  if (!response.ok) return
  // The row disappears, so the focus moves to the next one.
  const buttons = [...body.querySelectorAll('button')]
  const index = buttons.indexOf(button)
  const next = buttons[index + 1] ?? buttons[index - 1] ?? title
  next.focus()
}

function cannotChange (): void {
  status.textContent = unreachable
}

function draw (): void {
  if (shown === undefined) return
  const { state, at } = shown
  const passed = performance.now() - at
  for (const field of fields) setText(byId(`${field.id}-in-force`, HTMLElement), describeLimit(state.limits[field.name]))
  caption.textContent = describeCallers(state)
  const open = [...state.callers, ...(state.overflow === null ? [] : [state.overflow])].filter(({ remaining }) => remaining > passed)
  const kept = new Map(open.map((counts) => [counts.caller, rows.get(counts.caller) ?? row(counts)]))
  for (const counts of open) kept.get(counts.caller)?.show(counts, state.limits[perMinute]?.effective ?? 0, counts.remaining - passed)
  rows = kept
  const wanted = [...[...kept.values()].map((row) => row.element), ...(kept.has('overflow') ? [] : [overflowUnused])]
  // Existing rows are not recreated, so that they keep the keyboard focus.
  if (wanted.length !== body.children.length || wanted.some((element, index) => body.children[index] !== element)) body.replaceChildren(...wanted)
}

function describeLimit (limit: Limit | undefined): string {
  if (limit === undefined) return ''
  const { effective, preference } = limit
  const inForce = effective === 0 ? 'Off' : `In force: ${inFull(effective)}`
  if (preference === null) return `${inForce}, as configured`
  return preference === undefined || preference === effective ? inForce : `${inForce} (set to ${typeof preference === 'number' ? inFull(preference) : JSON.stringify(preference)})`
}

function describeCallers ({ trackedCallers, more }: Callers): string {
  const tracked = trackedCallers === null ? 'The store does not answer.' : `Callers with a counter: ${inFull(trackedCallers)}.`
  return `${tracked} Windows that this instance has seen${more > 0 ? `; ${inFull(more)} more are not shown` : ''}:`
}

function row ({ caller, digest }: Counts): Row {
  const meter = element('meter', { min: 0, 'aria-hidden': 'true' })
  const [admitted, rejected, remains] = [element('span'), element('td', { role: 'cell', 'data-label': 'Rejected' }), element('td', { role: 'cell', 'data-label': 'Window ends in' })]
  const button = element('button', { class: 'quiet small', type: 'button', 'aria-label': `Forget ${caller}` }, 'Forget')
  if (digest !== null) button.addEventListener('click', () => { forget(caller, digest, button).catch(cannotChange) })
  return {
    element: element('tr', { role: 'row' },
      nameCell(digest === null ? 'Overflow, shared by all others' : element('code', {}, caller)),
      element('td', { role: 'cell', 'data-label': 'Admitted' }, element('span', { class: 'gauge' }, meter, admitted)),
      rejected, remains,
      element('td', { role: 'cell', class: 'action' }, ...(digest === null ? [] : [button]))),
    show (counts, limit, remaining) {
      meter.hidden = limit === 0
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
