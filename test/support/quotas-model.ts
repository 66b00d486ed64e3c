import type { LimitName } from '../../lib/index.js'

/** A quota of the model, with its limits of the moment. */
export interface ModelQuota {
  readonly name: string
  readonly limitName: LimitName
  readonly isEnforced: boolean
  readonly unreportedTokens: number
  limit: number
}

/** A request of the model: its caller in each of its quotas, or null. */
export interface ModelRequest {
  readonly callers: ReadonlyMap<string, string | null>
  readonly decisions: ModelDecision[]
  readonly isAdmitted: boolean
  /** What was charged to each token quota. */
  readonly accounts: Map<string, { reported: number | null, unreported: number }>
}

export interface ModelDecision {
  quota: string
  outcome: 'admitted' | 'rejected' | 'unauthenticated' | 'disabled'
  limit: number
  count: number | null
  windowRemaining: number | null
}

interface Counter { count: number, windowStart: number }

const minute = 60_000
const windows: Record<LimitName, number | null> = {
  perMinute: minute, perHour: 60 * minute, perDay: 1440 * minute, tokensPerMinute: minute, tokensPerHour: 60 * minute, tokensPerDay: 1440 * minute, inFlight: null
}

/** An independent model of several quotas that follows "Several quotas" in docs/rules.md sentence by sentence, with room for every caller. */
export class QuotasModel {
  readonly #quotas: readonly ModelQuota[]
  readonly #counters = new Map<string, Counter>()
  readonly #places = new Map<string, number>()

  constructor (quotas: readonly ModelQuota[]) {
    this.#quotas = quotas
  }

  /** Decides a request, whose quotas are those that have an entry in `callers`. */
  request (now: number, callers: ReadonlyMap<string, string | null>): ModelRequest {
    const quotas = this.#quotas.filter(({ name }) => callers.has(name))
    const decisions = new Map(quotas.map((quota) => [quota, this.#undecided(quota, callers.get(quota.name) ?? null)]))
    const refuse = (quota: ModelQuota): ModelRequest => ({ callers, decisions: [...decisions].filter(([each]) => each === quota).map(([, decision]) => decision), isAdmitted: false, accounts: new Map() })

    const unnamed = quotas.find((quota) => quota.isEnforced && decisions.get(quota)?.outcome === 'unauthenticated')
    if (unnamed !== undefined) return refuse(unnamed)

    const asked = quotas.filter((quota) => decisions.get(quota)?.outcome === 'admitted')
    const inFlight = asked.filter(({ limitName }) => limitName === 'inFlight')
    const inWindows = asked.filter(({ limitName }) => limitName !== 'inFlight')
    for (const quota of inFlight) this.#decideInFlight(quota, decisions, callers)
    const full = inFlight.find((quota) => quota.isEnforced && decisions.get(quota)?.outcome === 'rejected')
    // A request opens the windows of its quotas even if it is rejected, unless no place is free: a single quota that counts requests is asked last.
    const counting = inWindows.filter(({ limitName }) => !limitName.startsWith('tokens'))
    for (const quota of inWindows) if (full === undefined || counting.length > 1 || quota !== counting[0]) this.#decideInWindow(now, quota, decisions, callers)
    if (full !== undefined) return refuse(full)

    let longest: ModelQuota | undefined
    for (const quota of inWindows) {
      const wait = decisions.get(quota)?.windowRemaining ?? 0
      if (quota.isEnforced && decisions.get(quota)?.outcome === 'rejected' && wait > (longest === undefined ? 0 : decisions.get(longest)?.windowRemaining ?? 0)) longest = quota
    }
    if (longest !== undefined) return refuse(longest)

    const accounts: ModelRequest['accounts'] = new Map()
    for (const quota of asked) {
      const decision = decisions.get(quota)
      if (decision?.outcome !== 'admitted') continue
      if (quota.limitName === 'inFlight') this.#places.set(keyOf(quota, callers), decision.count ?? 0)
      else if (quota.limitName.startsWith('tokens')) accounts.set(quota.name, { reported: null, unreported: 0 })
      else decision.count = this.#counterOf(now, quota, callers).count += 1
    }
    return { callers, decisions: [...decisions.values()], isAdmitted: true, accounts }
  }

  /** The host reports the tokens of a request. */
  charge (now: number, request: ModelRequest, tokens: number): void {
    this.#account(now, request, (account) => { account.reported = (account.reported ?? 0) + tokens })
  }

  /** The response of a request closes. */
  close (now: number, request: ModelRequest): void {
    for (const { quota: name, outcome } of request.isAdmitted ? request.decisions : []) {
      const quota = this.#quotas.find((quota) => quota.name === name)
      if (quota?.limitName !== 'inFlight' || outcome !== 'admitted') continue
      const key = keyOf(quota, request.callers)
      this.#places.set(key, (this.#places.get(key) ?? 0) - 1)
    }
    this.#account(now, request, (account, { unreportedTokens }) => { if (account.reported === null) account.unreported = unreportedTokens })
  }

  /** What is counted for a caller. */
  count (now: number, name: string, caller: string): number {
    const counter = this.#counters.get(`${name} ${caller}`)
    const quota = this.#quotas.find((quota) => quota.name === name)
    if (quota?.limitName === 'inFlight') return this.#places.get(`${name} ${caller}`) ?? 0
    return counter === undefined || now - counter.windowStart >= (windows[quota?.limitName ?? 'perMinute'] ?? 0) ? 0 : counter.count
  }

  #undecided ({ name, limit }: ModelQuota, caller: string | null): ModelDecision {
    const outcome = limit === 0 ? 'disabled' : caller === null ? 'unauthenticated' : 'admitted'
    return { quota: name, outcome, limit, count: null, windowRemaining: null }
  }

  #decideInFlight (quota: ModelQuota, decisions: Map<ModelQuota, ModelDecision>, callers: ReadonlyMap<string, string | null>): void {
    const count = this.#places.get(keyOf(quota, callers)) ?? 0
    Object.assign(decisions.get(quota) ?? {}, count < quota.limit ? { count: count + 1 } : { outcome: 'rejected', count })
  }

  #decideInWindow (now: number, quota: ModelQuota, decisions: Map<ModelQuota, ModelDecision>, callers: ReadonlyMap<string, string | null>): void {
    const { count, windowStart } = this.#counterOf(now, quota, callers)
    const windowRemaining = windowStart + (windows[quota.limitName] ?? 0) - now
    Object.assign(decisions.get(quota) ?? {}, { outcome: count < quota.limit ? 'admitted' : 'rejected', count, windowRemaining })
  }

  #counterOf (now: number, quota: ModelQuota, callers: ReadonlyMap<string, string | null>): Counter {
    const key = keyOf(quota, callers)
    const counter = this.#counters.get(key)
    if (counter !== undefined && now - counter.windowStart < (windows[quota.limitName] ?? 0)) return counter
    const fresh = { count: 0, windowStart: now }
    this.#counters.set(key, fresh)
    return fresh
  }

  /** Charges what a change of its accounts adds: the greater of what was reported and unreported. */
  #account (now: number, request: ModelRequest, change: (account: { reported: number | null, unreported: number }, quota: ModelQuota) => void): void {
    for (const [name, account] of request.accounts) {
      const quota = this.#quotas.find((quota) => quota.name === name)
      if (quota === undefined) continue
      const before = Math.max(account.reported ?? 0, account.unreported)
      change(account, quota)
      const added = Math.max(account.reported ?? 0, account.unreported) - before
      if (added > 0) this.#counterOf(now, quota, request.callers).count += added
    }
  }
}

function keyOf ({ name }: ModelQuota, callers: ReadonlyMap<string, string | null>): string {
  return `${name} ${callers.get(name)}`
}
