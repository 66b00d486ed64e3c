import type { QuotaDecision } from 'fastify-llm-quota'

/** One caller's window, as far as this instance has seen it. */
export interface QuotaWindow {
  /** The first characters of the caller's digest, or `overflow` for the counter that callers beyond the cap share. */
  readonly caller: string
  /** Requests admitted in the window, on whichever instance. */
  admitted: number
  refused: number
  limit: number
  /** Milliseconds until the window ends. */
  remaining: number
  /** When requests came, in milliseconds since the window began, the first ones of each window. */
  marks: { readonly at: number, readonly admitted: boolean }[]
}

interface Seen {
  readonly window: QuotaWindow
  endsAt: number
}

const overflow = 'overflow'
const windowLength = 60_000

/** The windows that decisions speak of, each until it ends. */
export class QuotaWindows {
  readonly #seen = new Map<string, Seen>()
  readonly #now: () => number
  readonly #most: { readonly callers: number, readonly marks: number }

  /** @param now Gives monotonic milliseconds. */
  constructor (now: () => number, most = { callers: 1000, marks: 240 }) {
    this.#now = now
    this.#most = most
  }

  /** Takes note of a decision about a caller that has a counter. */
  record ({ callerKey, outcome, overflow: shared, count, windowRemaining, limit }: QuotaDecision): void {
    if (callerKey === null || count === null || windowRemaining === null) return
    const key = shared ? overflow : callerKey
    const { window } = this.#openWindow(key, windowRemaining)
    const admitted = outcome === 'admitted'
    if (admitted) window.admitted = count
    else window.refused++
    window.limit = limit
    if (window.marks.length < this.#most.marks) window.marks.push({ at: Math.max(0, windowLength - windowRemaining), admitted })
  }

  /** A caller's own window, and the one that it shares where it has none; null where neither is open. */
  of (callerKey: string): QuotaWindow | null {
    return this.#stillOpen(callerKey) ?? null
  }

  /** The windows of callers that have one of their own, those with most requests first. */
  all (): QuotaWindow[] {
    return [...this.#seen.keys()]
      .filter((key) => key !== overflow)
      .flatMap((key) => this.#stillOpen(key) ?? [])
      .sort((one, other) => other.admitted + other.refused - one.admitted - one.refused)
  }

  /** The window that callers without one of their own share. */
  overflow (): QuotaWindow | null {
    return this.#stillOpen(overflow) ?? null
  }

  #openWindow (key: string, remaining: number): Seen {
    const endsAt = this.#now() + remaining
    const seen = this.#seen.get(key)
    // Rounding and the way to a shared server make ends of one window differ a little; two windows' differ by a minute.
    if (seen !== undefined && Math.abs(endsAt - seen.endsAt) < windowLength / 2) return seen
    const window = { caller: key === overflow ? overflow : key.slice(0, 8), admitted: 0, refused: 0, limit: 0, remaining, marks: [] }
    const opened = { window, endsAt }
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
