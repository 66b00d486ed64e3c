/** A quota of the model, with its limit of the moment. */
export interface ModelQuota {
  readonly name: string
  readonly unit: string
  /** Null for requests in flight. */
  readonly period: 'minute' | 'hour' | 'day' | 'month' | null
  /** Hours east of UTC; null if the windows open with the first request. */
  readonly offset: number | null
  readonly isEnforced: boolean
  readonly unreported: number | undefined
  limit: number
}

/** Monotonic milliseconds, and milliseconds since the epoch. */
export interface ModelTime {
  readonly now: number
  readonly date: number
}

/**
 * A quota of a request, with the caller, or null, and the cost, or null if the host's function
 * fails.
 */
export interface Asked {
  readonly quota: ModelQuota
  readonly caller: string | null
  readonly cost: number | null
}

export interface ModelDecision {
  quota: string
  unit: string
  enforced: boolean
  outcome: 'admitted' | 'rejected' | 'unauthenticated' | 'disabled' | 'unavailable'
  limit: number
  count: number | null
  windowRemaining: number | null
}

/** What a request has of its quotas. */
export interface ModelPermit {
  readonly decisions: readonly ModelDecision[]
  readonly isAdmitted: boolean
  readonly accounts: readonly Account[]
  isOpen: boolean
}

interface Window {
  count: number
  readonly start: number
  readonly end: number | null
}

/** What one request has counted in one quota, and in which windows. */
interface Account {
  readonly asked: Asked
  readonly cost: number
  reported: number | null
  readonly parts: { readonly window: Window; amount: number }[]
}

const minute = 60_000
const lengths = { minute, hour: 60 * minute, day: 1440 * minute }

/**
 * An independent model of several quotas that follows docs/rules.md sentence by sentence, with room
 * for every caller.
 */
export class QuotasModel {
  readonly #windows = new Map<string, Window>()

  /**
   * Decides on the quotas of a request, or of a permit in a handler, in the order of the quotas.
   */
  decide (time: ModelTime, all: readonly Asked[]): ModelPermit {
    const enforced = all.filter(({ quota }) => quota.isEnforced)
    const decisions = new Map(all.map((asked) => [asked, beforeTheStore(asked)]))
    const outcomeOf = (asked: Asked) => decisions.get(asked)?.outcome
    const refused = (asked: Asked): ModelPermit => ({
      decisions: [decisions.get(asked) ?? beforeTheStore(asked)],
      isAdmitted: false,
      accounts: [],
      isOpen: false
    })
    const early =
      enforced.find((asked) => outcomeOf(asked) === 'unauthenticated') ??
      enforced.find((asked) => outcomeOf(asked) === 'unavailable')
    if (early !== undefined) return refused(early)
    const hasRoom = (asked: Asked): boolean => {
      const { count, start, end } = this.#reach(time, asked)
      const { limit, period } = asked.quota
      const isAdmitted = count + Math.max(costOf(asked), 1) <= limit
      const remaining =
        period === null
          ? null
          : end === null
            ? start + lengthOf(period) - time.now
            : Math.max(1, end - time.date)
      Object.assign(decisions.get(asked) ?? {}, {
        outcome: isAdmitted ? 'admitted' : 'rejected',
        count,
        windowRemaining: remaining
      })
      return isAdmitted
    }
    const waitFor = (asked: Asked): number =>
      asked.quota.period === null ? Infinity : Number(decisions.get(asked)?.windowRemaining)
    const full = enforced.filter((asked) => outcomeOf(asked) === 'admitted' && !hasRoom(asked))
    const [longest] = full.sort((one, other) =>
      one === other || waitFor(one) === waitFor(other) ? 0 : waitFor(other) - waitFor(one)
    )
    if (longest !== undefined) return refused(longest)
    const accounts = all.flatMap((asked) => {
      if (outcomeOf(asked) !== 'admitted' || (!asked.quota.isEnforced && !hasRoom(asked))) return []
      const window = this.#reach(time, asked)
      window.count += costOf(asked)
      Object.assign(decisions.get(asked) ?? {}, { count: window.count })
      return [
        { asked, cost: costOf(asked), reported: null, parts: [{ window, amount: costOf(asked) }] }
      ]
    })
    return { decisions: [...decisions.values()], isAdmitted: true, accounts, isOpen: true }
  }

  /** The host reports what a request has used. */
  charge (time: ModelTime, permit: ModelPermit, amounts: Readonly<Record<string, number>>): void {
    for (const account of permit.accounts) {
      const amount = amounts[account.asked.quota.unit]
      if (amount === undefined || !canBeReported(account)) continue
      account.reported = (account.reported ?? 0) + amount
      this.#settle(time, permit, account)
    }
  }

  /** The response of a request closes, or a permit ends. */
  end (time: ModelTime, permit: ModelPermit): void {
    if (!permit.isOpen) return
    permit.isOpen = false
    for (const account of permit.accounts) this.#settle(time, permit, account)
  }

  /** The store forgets a caller, except for requests in flight. */
  forget (quota: ModelQuota, caller: string): void {
    if (quota.period !== null) this.#windows.delete(`${quota.name} ${caller}`)
  }

  /** What is counted for a caller. */
  count (time: ModelTime, quota: ModelQuota, caller: string): number {
    const window = this.#windows.get(`${quota.name} ${caller}`)
    return window !== undefined && isOpen(window, quota, time) ? window.count : 0
  }

  #reach (time: ModelTime, { quota, caller }: Asked): Window {
    const key = `${quota.name} ${caller}`
    const window = this.#windows.get(key)
    if (window !== undefined && isOpen(window, quota, time)) return window
    const opened = { count: 0, start: time.now, end: endOf(quota, time) }
    this.#windows.set(key, opened)
    return opened
  }

  /**
   * Makes the windows count what the request costs now: adds to the open one, or gives back, the
   * latest part first.
   */
  #settle (
    time: ModelTime,
    { isOpen }: ModelPermit,
    { asked, cost, reported, parts }: Account
  ): void {
    const { period, unit, unreported = cost } = asked.quota
    if (unit === 'requests') return
    const atTheEnd = period === null ? 0 : (reported ?? unreported)
    const due = isOpen ? Math.max(cost, reported ?? 0) : atTheEnd
    let more = due - parts.reduce((sum, { amount }) => sum + amount, 0)
    if (more > 0) {
      const window = this.#reach(time, asked)
      window.count += more
      parts.push({ window, amount: more })
    }
    for (const part of [...parts].reverse()) {
      const given = Math.min(part.amount, Math.max(0, -more))
      part.amount -= given
      part.window.count -= given
      more += given
    }
  }
}

function beforeTheStore ({
  quota: { name, unit, limit, isEnforced },
  caller,
  cost
}: Asked): ModelDecision {
  const outcome =
    limit === 0
      ? 'disabled'
      : caller === null
        ? 'unauthenticated'
        : cost === null
          ? 'unavailable'
          : 'admitted'
  return {
    quota: name,
    unit,
    enforced: isEnforced,
    outcome,
    limit,
    count: null,
    windowRemaining: null
  }
}

function canBeReported ({
  asked: {
    quota: { unit, period }
  }
}: Account): boolean {
  return unit !== 'requests' && period !== null
}

function costOf ({ quota, cost }: Asked): number {
  return quota.period === null ? 1 : Math.min(Number(cost), quota.limit)
}

function isOpen (window: Window, quota: ModelQuota, time: ModelTime): boolean {
  if (quota.period === null) return true
  return window.end === null
    ? time.now - window.start < lengthOf(quota.period)
    : Number(endOf(quota, time)) <= window.end
}

function lengthOf (period: NonNullable<ModelQuota['period']>): number {
  return period === 'month' ? Infinity : lengths[period]
}

function endOf ({ period, offset }: ModelQuota, { date }: ModelTime): number | null {
  if (offset === null) return null
  const local = new Date(date + offset * lengths.hour)
  const [year, month, day] = [local.getUTCFullYear(), local.getUTCMonth(), local.getUTCDate()]
  return (
    (period === 'day' ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1)) -
    offset * lengths.hour
  )
}
