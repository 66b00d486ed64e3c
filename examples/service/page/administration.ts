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
interface Callers {
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
  show (counts: Counts, limit: number): void
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

let latest = 0
let rows = new Map<string, Row>()

/** Starts the form that changes the limits. */
export function offerAdministration (): void {
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    if (Object.values(entered()).includes(0)) confirmation.showModal()
    else change(entered())
  })
  confirmation.addEventListener('close', () => {
    if (confirmation.returnValue === 'off') change(entered())
    confirmation.returnValue = ''
  })
  byId('configured', HTMLButtonElement).addEventListener('click', () => { change(Object.fromEntries(fields.map(({ name }) => [name, null]))) })
}

/** Reads the limits and the windows of all callers, and shows them to an administrator. */
export async function refreshCallers (): Promise<void> {
  const mine = ++latest
  const response = await send('/api/callers')
  const state: Callers = await response.json()
  // A response that is late must not replace a later one, or be shown to another user.
  if (!response.ok || mine !== latest) return
  for (const field of fields) {
    const value = String(state.limits[field.name]?.effective ?? '')
    const isUnchanged = field.defaultValue === value || document.activeElement === field
    field.defaultValue = value
    if (!isUnchanged) field.value = value
    setText(byId(`${field.id}-in-force`, HTMLElement), describeLimit(state.limits[field.name]))
  }
  setText(caption, describeCallers(state))
  drawRows([...state.callers, ...(state.overflow === null ? [] : [state.overflow])], state.limits[perMinute]?.effective ?? 0)
  section.hidden = false
}

/** Hides the section for administrators. */
export function hideAdministration (): void {
  latest++
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

function change (limits: Record<string, number | null>): void {
  const changed = Object.values(limits).includes(null) ? 'The configured limits apply again.' : 'The limits have changed.'
  if (Object.keys(limits).length === 0) status.textContent = 'Enter another limit first.'
  else report(send('/api/preferences', { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(limits) }), changed).catch(reportError)
}

// Shows whether a change succeeded, and its effect. Returns whether it did.
async function report (sent: Promise<Response>, success: string): Promise<boolean> {
  try {
    const response = await sent
    status.textContent = response.ok ? success : await messageOf(response)
    await refreshCallers()
    return response.ok
  } catch {
    status.textContent = unreachable
    return false
  }
}

async function forget (caller: string, digest: string, button: HTMLButtonElement): Promise<void> {
  const buttons = [...body.querySelectorAll('button')]
  const index = buttons.indexOf(button)
  // The row disappears, so the focus moves to the next one.
  const next = buttons[index + 1] ?? buttons[index - 1] ?? title
  if (await report(send(`/api/callers/${digest}`, { method: 'DELETE' }), `The caller ${caller} starts with a new window.`)) next.focus()
}

function drawRows (windows: readonly Counts[], limit: number): void {
  rows = new Map(windows.map((counts) => [counts.caller, rows.get(counts.caller) ?? row(counts)]))
  for (const counts of windows) rows.get(counts.caller)?.show(counts, limit)
  const wanted = [...[...rows.values()].map((row) => row.element), ...(rows.has('overflow') ? [] : [overflowUnused])]
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
  if (digest !== null) button.addEventListener('click', () => { forget(caller, digest, button).catch(reportError) })
  return {
    element: element('tr', { role: 'row' },
      nameCell(digest === null ? 'Overflow, shared by all others' : element('code', {}, caller)),
      element('td', { role: 'cell', 'data-label': 'Admitted' }, element('span', { class: 'gauge' }, meter, admitted)),
      rejected, remains,
      element('td', { role: 'cell', class: 'action' }, ...(digest === null ? [] : [button]))),
    show (counts, limit) {
      meter.hidden = limit === 0
      meter.setAttribute('max', String(Math.max(limit, counts.admitted, 1)))
      meter.setAttribute('value', String(counts.admitted))
      admitted.textContent = ofLimit(counts.admitted, limit)
      rejected.textContent = inFull(counts.rejected)
      remains.textContent = secondsOf(counts.remaining)
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
