import type { Caller } from '../caller/request-caller.js'
import type { Acquisition, Entry } from '../store/store.js'
import type { Match } from '../subject/request-matcher.js'
import type { QuotaDecision } from './decision.js'
import type { Quota } from './quota.js'

/** What a store returned for a request; undefined if it was not asked or has failed. */
export type StoreResult = Acquisition | Entry | undefined

const notCounted = { count: null, windowRemaining: null, overflow: false }

/** The model tokens of a request in one quota. */
export interface TokenUsage {
  /** What the host has reported; null if it has reported nothing. */
  reported: number | null
  /** What is charged because nothing was reported until the response closed. */
  unreported: number
  charged: number
}

/** One quota of a request, and its decision. */
export interface Ruling {
  readonly quota: Quota
  readonly decision: QuotaDecision
  /** The place that the request takes, in a quota of requests in flight that admitted it. */
  readonly place: Entry | undefined
  /** What the request uses, in a quota of model tokens that admitted it. */
  readonly usage: TokenUsage | undefined
}

/** The decisions on a request. */
export interface Verdict {
  /** One for each quota of the request, in their order. */
  readonly rulings: readonly Ruling[]
  /** The ruling that the request is refused for; null if it passes. */
  readonly refusal: Ruling | null
  /** The rulings to publish: one for each quota of an admitted request, or the one that the request is refused for. */
  readonly published: readonly Ruling[]
  /** Whether a place or the model tokens of the request remain to be settled when its response ends. */
  readonly outlastsDecision: boolean
}

/**
 * Returns the ruling of a quota on a request.
 *
 * @param caller The caller; null if it was not determined because the limit is 0.
 */
export function rulingOn ({ quota, operation }: Match<Quota>, limit: number, caller: Caller | null, result: StoreResult): Ruling {
  const { name, unit, window, isEnforced: enforced } = quota
  const outcome = result === undefined ? outcomeWithoutStore(caller) : result.admitted === true ? 'admitted' : 'rejected'
  const callerKey = typeof caller === 'string' ? caller : null
  const reason = typeof caller === 'string' || caller === null ? null : caller.reason
  const { count, windowRemaining, overflow } = countIn(result)
  const decision = { outcome, quota: name, unit, window, reason, operation, enforced, limit, callerKey, count, windowRemaining, overflow }
  // The fields are consistent with the outcome, which the compiler cannot check.
  return {
    quota,
    decision: decision as QuotaDecision,
    place: window === null && outcome === 'admitted' ? result : undefined,
    usage: unit === 'tokens' && outcome === 'admitted' ? { reported: null, unreported: 0, charged: 0 } : undefined
  }
}

function countIn (result: StoreResult): Pick<QuotaDecision, 'count' | 'windowRemaining' | 'overflow'> {
  if (result === undefined) return notCounted
  // Requests in flight have no window.
  return 'windowRemaining' in result ? result : { ...notCounted, count: result.count }
}

/** Returns the verdict on a request of a single quota that counts requests, as `verdictOn` would, but without a loop and a closure. */
export function verdictOnly (ruling: Ruling): Verdict {
  const rulings = [ruling]
  return { rulings, refusal: callsForRefusal(ruling.decision) ? ruling : null, published: rulings, outlastsDecision: false }
}

/** Returns the verdict on a request with any quotas. */
export function verdictOn (rulings: readonly Ruling[]): Verdict {
  const refusal = refusalAmong(rulings)
  const outlastsDecision = rulings.some(({ place, usage }) => place !== undefined || usage !== undefined)
  return { rulings, refusal, published: refusal === null ? rulings : [refusal], outlastsDecision }
}

function outcomeWithoutStore (caller: Caller | null): QuotaDecision['outcome'] {
  if (caller === null) return 'disabled'
  // A request is not admitted until the store has admitted it.
  return typeof caller === 'string' || caller.reason === null ? 'unavailable' : 'unauthenticated'
}

/** Returns the ruling to refuse a request for: requests in flight first, then the longest wait; null if the request passes. */
export function refusalAmong (rulings: readonly Ruling[]): Ruling | null {
  let refusal: Ruling | null = null
  for (const ruling of rulings) {
    if (callsForRefusal(ruling.decision) && (refusal === null || rank(ruling.decision) > rank(refusal.decision))) refusal = ruling
  }
  return refusal
}

function callsForRefusal ({ enforced, outcome }: QuotaDecision): boolean {
  return enforced && outcome !== 'admitted' && outcome !== 'disabled'
}

function rank ({ outcome, window, windowRemaining }: QuotaDecision): number {
  if (outcome !== 'rejected') return 0
  return window === null ? Infinity : Number(windowRemaining)
}
