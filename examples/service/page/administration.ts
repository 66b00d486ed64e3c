import { byId, element } from './document.js'
import { messageOf, send, unreachable } from './service.js'
import type { QuotaWindow } from './timeline.js'

/** All callers' windows, as the service tells of them. */
export interface Callers {
  readonly limit: number
  readonly trackedCallers: number | null
  readonly callers: readonly Omit<QuotaWindow, 'marks'>[]
  /** How many more callers there are than are told of. */
  readonly more: number
  readonly overflow: Omit<QuotaWindow, 'marks'> | null
}

const section = byId('administration', HTMLElement)
const form = byId('limit-form', HTMLFormElement)
const field = form.elements.namedItem('limit')
const status = byId('limit-status', HTMLElement)
const caption = byId('callers-caption', HTMLElement)
const rows = byId('callers', HTMLElement)

let shown: { readonly state: Callers, readonly at: number } | undefined

/** Makes the form change the limit, and the table keep time. */
export function offerAdministration (): void {
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    if (field instanceof HTMLInputElement) change(field.valueAsNumber).catch(cannotChange)
  })
  byId('configured', HTMLButtonElement).addEventListener('click', () => { change(null).catch(cannotChange) })
  setInterval(draw, 500)
}

/** Shows all callers' windows to an administrator. */
export function showCallers (state: Callers): void {
  if (field instanceof HTMLInputElement && document.activeElement !== field) field.value = String(state.limit)
  shown = { state, at: performance.now() }
  section.hidden = false
  draw()
}

/** Hides what only administrators may see. */
export function hideAdministration (): void {
  shown = undefined
  section.hidden = true
  rows.replaceChildren()
}

async function change (limit: number | null): Promise<void> {
  const response = await send('/api/preferences', { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ 'rate-limit.per-minute': limit }) })
  if (!response.ok) status.textContent = await messageOf(response)
  else status.textContent = limit === null ? 'The configured limit holds again.' : `The limit is ${limit} now.`
}

function cannotChange (): void {
  status.textContent = unreachable
}

function draw (): void {
  if (shown === undefined) return
  const { state, at } = shown
  const passed = performance.now() - at
  const tracked = state.trackedCallers === null ? 'The store cannot be asked.' : `Callers with a counter: ${state.trackedCallers}.`
  caption.textContent = `${tracked} Below are the windows that requests to this instance opened or met${state.more > 0 ? `, and there are ${state.more} more` : ''}.`
  const open = state.callers.filter(({ remaining }) => remaining > passed).map((window) => row(window, window.remaining - passed))
  const overflow = state.overflow !== null && state.overflow.remaining > passed ? row(state.overflow, state.overflow.remaining - passed) : overflowUnused()
  rows.replaceChildren(...open, overflow)
}

function row ({ caller, admitted, refused, limit }: Omit<QuotaWindow, 'marks'>, remaining: number): HTMLElement {
  const name = caller === 'overflow' ? 'Overflow, shared by all others' : element('code', {}, caller)
  return element('tr', {},
    element('th', { scope: 'row' }, name),
    element('td', {}, element('meter', { min: 0, max: Math.max(limit, 1), value: admitted, 'aria-hidden': 'true' }), `${admitted} of ${limit}`),
    element('td', {}, String(refused)),
    element('td', {}, `${Math.ceil(remaining / 1000)} s`))
}

function overflowUnused (): HTMLElement {
  return element('tr', {}, element('th', { scope: 'row' }, 'Overflow, shared by all others'), element('td', { colspan: 3 }, 'not in use'))
}
