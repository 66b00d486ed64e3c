import type { FastifyRequest } from 'fastify'
import type { QuotaDecision } from './decision.js'
import type { Verdict } from './verdict.js'

const verdictOf = Symbol('fastify-llm-quota: verdict')
// What a host has assigned to `request.quota`, which is shown until the next verdict.
const shownQuota = Symbol('fastify-llm-quota: request.quota')
const none: readonly never[] = Object.freeze([])

// A `WeakMap` would cost more.
type Carrier = FastifyRequest & { [verdictOf]?: Verdict | Promise<Verdict>, [shownQuota]?: { decision: QuotaDecision | null, assignedTo: Verdict | Promise<Verdict> | undefined } }

/** Returns the verdict on a request, or a promise while it is pending; undefined if none was asked for. */
export function findVerdict (request: Carrier): Verdict | Promise<Verdict> | undefined {
  return request[verdictOf]
}

/** Stores the verdict on a request, or the promise for it. */
export function keepVerdict (request: Carrier, verdict: Verdict | Promise<Verdict>): void {
  request[verdictOf] = verdict
}

/** The request decorator `quota`. A host can assign to it, which changes the value that it returns, but not the decision. */
export const quotaAccessor = {
  getter (this: Carrier): QuotaDecision | null {
    const { [verdictOf]: verdict, [shownQuota]: shown } = this
    const published = verdict === undefined || verdict instanceof Promise || shown?.assignedTo === verdict ? none : verdict.published
    return (published[0] ?? shown)?.decision ?? null
  },
  setter (this: Carrier, decision: QuotaDecision | null) {
    this[shownQuota] = { decision, assignedTo: this[verdictOf] }
  }
}

/** The request decorator `quotaDecisions`. */
export const decisionsAccessor = {
  getter (this: Carrier): readonly QuotaDecision[] {
    const verdict = this[verdictOf]
    return verdict === undefined || verdict instanceof Promise ? none : verdict.published.map(({ decision }) => decision)
  }
}
