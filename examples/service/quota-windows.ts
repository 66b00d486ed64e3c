import type { QuotaDecision, QuotaStanding } from 'fastify-llm-quota'

/** A caller's window in the default quota, as seen by this instance. */
export interface QuotaWindow {
  /** The first characters of the caller's digest, or `overflow` for the overflow counter. */
  readonly caller: string
  /** The complete digest; null for the overflow counter. */
  readonly digest: string | null
  /** The number of requests admitted in the window, on all instances. */
  admitted: number
  /** The number of requests that this instance rejected. */
  rejected: number
  /** Milliseconds until the window ends. */
  remaining: number
  /** The times of the first requests, in milliseconds since the start of the window. */
  marks: { readonly at: number, readonly admitted: boolean }[]
}

interface Seen {
  readonly window: QuotaWindow
  readonly endsAt: number
}

const overflow = 'overflow'
const windowLength = 60_000

/** The windows of recent decisions of the default quota, each until it ends. */
export class QuotaWindows {
  readonly #seen = new Map<string, Seen>()
  readonly #now: () => number
  readonly #most: { readonly callers: number, readonly marks: number }

  /** @param now Returns monotonic milliseconds. */
  constructor (now: () => number, most = { callers: 1000, marks: 240 }) {
    this.#now = now
    this.#most = most
  }

  /** Records a decision of the store. */
  record ({ quota, callerKey, outcome, overflow: shared, count, windowRemaining }: QuotaDecision): void {
    if (quota !== 'default' || callerKey === null || count === null || windowRemaining === null) return
    const { window } = this.#openWindow(shared ? overflow : callerKey, windowRemaining)
    const admitted = outcome === 'admitted'
    if (admitted) window.admitted = count
    else window.rejected++
    if (window.marks.length < this.#most.marks) window.marks.push({ at: Math.max(0, windowLength - windowRemaining), admitted })
  }

  /** Returns the requests that this instance has seen in a caller's current window. */
  of (callerKey: string, standing: Pick<QuotaStanding, 'windowRemaining' | 'overflow'> | undefined): Pick<QuotaWindow, 'rejected' | 'marks'> {
    const seen = this.#stillOpen(standing?.overflow === true ? overflow : callerKey)
    const ends = standing?.windowRemaining ?? null
    return seen === undefined || ends === null || !sameEnd(seen.remaining, ends) ? { rejected: 0, marks: [] } : { rejected: seen.rejected, marks: seen.marks }
  }

  /** Removes the window of a caller. */
  forget (callerKey: string): void {
    this.#seen.delete(callerKey)
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
    const isShared = key === overflow
    const opened = { window: { caller: isShared ? overflow : key.slice(0, 8), digest: isShared ? null : key, admitted: 0, rejected: 0, remaining, marks: [] }, endsAt }
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

// The end of a window varies slightly between decisions because of rounding and network latency. Two windows are a minute apart.
function sameEnd (one: number, other: number): boolean {
  return Math.abs(one - other) < windowLength / 2
}
