import type { QuotaDecision, QuotaStanding } from 'fastify-llm-quota'

/** A caller's window, as seen by this instance. */
export interface QuotaWindow {
  /** The first characters of the caller's digest, or `overflow` for the overflow counter. */
  readonly caller: string
  /** The complete digest; null for the overflow counter. */
  readonly digest: string | null
  /** The number of requests admitted in the window, on all instances. */
  admitted: number
  /** The number of requests that this instance rejected. */
  rejected: number
  limit: number
  /** Milliseconds until the window ends. */
  remaining: number
  /** The times of the first requests, in milliseconds since the start of the window. */
  marks: { readonly at: number, readonly admitted: boolean }[]
}

interface Seen {
  readonly window: QuotaWindow
  readonly endsAt: number
  revision: number
}

const overflow = 'overflow'
const windowLength = 60_000

/** The windows of recent decisions, each until it ends. */
export class QuotaWindows {
  readonly #seen = new Map<string, Seen>()
  readonly #now: () => number
  readonly #most: { readonly callers: number, readonly marks: number }
  #revision = 0
  #forgottenAt = 0

  /** @param now Returns monotonic milliseconds. */
  constructor (now: () => number, most = { callers: 1000, marks: 240 }) {
    this.#now = now
    this.#most = most
  }

  /** Records a decision of the store. */
  record ({ callerKey, outcome, overflow: shared, count, windowRemaining, limit }: QuotaDecision): void {
    if (callerKey === null || count === null || windowRemaining === null) return
    const key = shared ? overflow : callerKey
    const seen = this.#openWindow(key, windowRemaining)
    const { window } = seen
    seen.revision = ++this.#revision
    const admitted = outcome === 'admitted'
    if (admitted) window.admitted = count
    else window.rejected++
    window.limit = limit
    if (window.marks.length < this.#most.marks) window.marks.push({ at: Math.max(0, windowLength - windowRemaining), admitted })
  }

  /** Returns a caller's window, from the store's count and the requests that this instance has seen; null if no window is open. */
  of (callerKey: string, { limit, count, windowRemaining, overflow: shared }: Omit<QuotaStanding, 'quota' | 'remaining'>): QuotaWindow | null {
    if (windowRemaining === null) return null
    const key = shared ? overflow : callerKey
    const seen = this.#stillOpen(key)
    const known = seen !== undefined && sameEnd(seen.remaining, windowRemaining) ? seen : unseen(key)
    return { ...known, admitted: count, limit, remaining: windowRemaining }
  }

  /** Returns a number that changes with every decision on a caller, and when any caller is forgotten. */
  revisionOf (callerKey: string): number {
    return Math.max(this.#forgottenAt, (this.#seen.get(callerKey) ?? this.#seen.get(overflow))?.revision ?? 0)
  }

  /** Removes the window of a caller. */
  forget (callerKey: string): void {
    this.#seen.delete(callerKey)
    this.#forgottenAt = ++this.#revision
  }

  /** Returns the windows of callers with a counter of their own, in descending order of requests. */
  all (): QuotaWindow[] {
    return [...this.#seen.keys()]
      .filter((key) => key !== overflow)
      .flatMap((key) => this.#stillOpen(key) ?? [])
      .sort((one, other) => other.admitted + other.rejected - one.admitted - one.rejected)
  }

  /** Returns the window of the overflow counter. */
  overflow (): QuotaWindow | null {
    return this.#stillOpen(overflow) ?? null
  }

  #openWindow (key: string, remaining: number): Seen {
    const endsAt = this.#now() + remaining
    const seen = this.#seen.get(key)
    if (seen !== undefined && sameEnd(endsAt, seen.endsAt)) return seen
    const opened = { window: { ...unseen(key), remaining }, endsAt, revision: 0 }
    this.#seen.delete(key)
    this.#seen.set(key, opened)
    const [eldest] = this.#seen.keys()
    if (this.#seen.size > this.#most.callers && eldest !== undefined) this.#seen.delete(eldest)
    return opened
  }

  #stillOpen (key: string): QuotaWindow | undefined {
    const seen = this.#seen.get(key)
    if (seen === undefined) return undefined
    const remaining = seen.endsAt - this.#now()
    if (remaining > 0) return { ...seen.window, remaining }
    this.#seen.delete(key)
    return undefined
  }
}

function unseen (key: string): QuotaWindow {
  const shared = key === overflow
  return { caller: shared ? overflow : key.slice(0, 8), digest: shared ? null : key, admitted: 0, rejected: 0, limit: 0, remaining: 0, marks: [] }
}

// The end of a window varies slightly between decisions because of rounding and network latency. Two windows are a minute apart.
function sameEnd (one: number, other: number): boolean {
  return Math.abs(one - other) < windowLength / 2
}
