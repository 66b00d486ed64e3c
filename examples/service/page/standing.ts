import { send } from './service.js'

/** The caller's standing, as sent by the service. */
export interface Standing {
  /** Requests per minute; 0 if the quota is disabled. */
  readonly limit: number
  readonly count: number
  /** Milliseconds; null if no window is open. */
  readonly windowRemaining: number | null
  readonly overflow: boolean
}

/** A window, as seen by the service. */
export interface QuotaWindow {
  readonly caller: string
  readonly digest: string | null
  readonly admitted: number
  readonly rejected: number
  readonly limit: number
  /** Milliseconds. */
  readonly remaining: number
  readonly marks: readonly { readonly at: number, readonly admitted: boolean }[]
}

/** The caller's standing at this moment. */
export interface Now {
  readonly limit: number
  readonly admitted: number
  readonly rejected: number
  /** Milliseconds until the window ends; 0 if no window is open. */
  readonly left: number
  /** Whether the next request would be rejected. */
  readonly full: boolean
  readonly shared: boolean
  readonly marks: QuotaWindow['marks']
}

interface Known {
  readonly standing: Standing
  readonly window: QuotaWindow | null
  readonly endsAt: number
}

const halfAWindow = 30_000
const listeners: ((now: Now | undefined) => void)[] = []

let known: Known | undefined

/** Calls back with each change, and regularly as time passes; with undefined if the user is not signed in. */
export function onStanding (listener: (now: Now | undefined) => void): void {
  listeners.push(listener)
}

export function keepTime (): void {
  setInterval(tell, 250)
}

/** Updates the standing from the service. If the update has no details of the window, the details of the same window are kept. */
export function know (standing: Standing, window: QuotaWindow | null = null): void {
  const endsAt = performance.now() + (standing.windowRemaining ?? 0)
  const same = known?.window != null && standing.windowRemaining !== null && Math.abs(known.endsAt - endsAt) < halfAWindow
  known = { standing, window: window ?? (same ? known?.window ?? null : null), endsAt }
  tell()
}

/** Resets the standing if the user is not signed in. */
export function forgetStanding (): void {
  known = undefined
  tell()
}

/** Reads the standing again. Returns the status of the response. */
export async function refreshStanding (): Promise<number> {
  const response = await send('/api/quota')
  if (response.ok) know(await response.json())
  return response.status
}

/** The caller's standing at this moment. */
export function now (): Now | undefined {
  if (known === undefined) return undefined
  const { standing: { limit, count, windowRemaining, overflow: shared }, window, endsAt } = known
  const left = windowRemaining === null ? 0 : endsAt - performance.now()
  if (left <= 0) return { limit, admitted: 0, rejected: 0, left: 0, full: false, shared, marks: [] }
  return { limit, admitted: count, rejected: window?.rejected ?? 0, left, full: limit > 0 && count >= limit, shared, marks: window?.marks ?? [] }
}

function tell (): void {
  const current = now()
  for (const listener of listeners) listener(current)
}
