import { send } from './service.js'

/** The caller's standing, as sent by the service. */
export interface Standing {
  readonly quotas: readonly {
    /** `default`, `tokens` or `streams`. */
    readonly quota: string
    /** 0 if the quota is disabled. */
    readonly limit: number
    readonly count: number
    /** Milliseconds; null if no window is open, or if the quota counts requests in flight. */
    readonly windowRemaining: number | null
    readonly overflow: boolean
  }[]
  /** The number of rejected requests in the window of the default quota. */
  readonly rejected: number
  /** The first requests in the window of the default quota; `at` is in milliseconds since its start. */
  readonly marks: readonly { readonly at: number, readonly admitted: boolean }[]
}

/** The caller's standing in a quota at this moment. */
export interface QuotaNow {
  readonly quota: string
  readonly limit: number
  readonly count: number
  /** Milliseconds until the window ends; 0 if no window is open. */
  readonly left: number
  /** Whether the next request would be rejected. */
  readonly isFull: boolean
  readonly isShared: boolean
}

/** The caller's standing at this moment. */
export interface Now {
  readonly quotas: readonly QuotaNow[]
  readonly rejected: number
  readonly marks: Standing['marks']
  /** Of the quotas that reject every operation until their windows end, the one with the longest wait. */
  readonly full: QuotaNow | undefined
}

const listeners: ((now: Now | undefined) => void)[] = []

let known: { readonly standing: Standing, readonly at: number } | undefined
let latest = 0

/** Calls back with each change, and regularly as time passes; with undefined if the user is not signed in. */
export function onStanding (listener: (now: Now | undefined) => void): void {
  listeners.push(listener)
}

export function keepTime (): void {
  setInterval(tell, 250)
}

/** Resets the standing if the user is not signed in. */
export function forgetStanding (): void {
  latest++
  known = undefined
  tell()
}

/** Reads the standing again. Returns the status of the response. */
export async function refreshStanding (): Promise<number> {
  const mine = ++latest
  const response = await send('/api/quota')
  const standing: Standing = await response.json()
  // A response that is late must not replace a later one, or be shown to another user.
  if (response.ok && mine === latest) {
    known = { standing, at: performance.now() }
    tell()
  }
  return response.status
}

/** The caller's standing at this moment. */
export function now (): Now | undefined {
  if (known === undefined) return undefined
  const { standing, at } = known
  const passed = performance.now() - at
  const quotas = standing.quotas.map((quota) => quotaNow(quota, passed))
  const isOpen = quotas.some(({ quota, left }) => quota === 'default' && left > 0)
  const [full] = quotas.filter(({ isFull, left }) => isFull && left > 0).sort((one, other) => other.left - one.left)
  return { quotas, rejected: isOpen ? standing.rejected : 0, marks: isOpen ? standing.marks : [], full }
}

function quotaNow ({ quota, limit, count, windowRemaining, overflow: isShared }: Standing['quotas'][number], passed: number): QuotaNow {
  const left = windowRemaining === null ? 0 : Math.max(0, windowRemaining - passed)
  const hasEnded = windowRemaining !== null && left === 0
  return { quota, limit, count: hasEnded ? 0 : count, left, isFull: limit > 0 && count >= limit && !hasEnded, isShared }
}

function tell (): void {
  const current = now()
  for (const listener of listeners) listener(current)
}
