import type { FastifyReply, FastifyRequest } from 'fastify'
import type { QuotaDecision } from './decision.js'
import type { Permit } from './permit.js'
import { hasResponseEnded, whenResponseEnds } from './response-end.js'

const permitOf = Symbol('fastify-llm-quota: permit')
const replyOf = Symbol('fastify-llm-quota: reply')
const followedPermits = Symbol('fastify-llm-quota: followed permits')
// What a host has assigned to `request.quota`, which is shown until the next permit.
const shownQuota = Symbol('fastify-llm-quota: request.quota')
const none: readonly never[] = Object.freeze([])

// A `WeakMap` would cost more.
type Carrier = FastifyRequest & {
  [permitOf]?: Permit | Promise<Permit>
  [replyOf]?: FastifyReply
  /** Null when the response has closed. */
  [followedPermits]?: Set<Permit> | null
  [shownQuota]?: { decision: QuotaDecision | null, assignedTo: Permit | Promise<Permit> | undefined }
}

/** Returns the permit of the hook, or a promise while it is pending; undefined if the request is subject to no quota. */
export function findPermit (request: Carrier): Permit | Promise<Permit> | undefined {
  return request[permitOf]
}

/** Stores the permit of the hook, or the promise for it. */
export function keepPermit (request: Carrier, permit: Permit | Promise<Permit>): void {
  request[permitOf] = permit
}

/** Remembers that a request has passed the hook. */
export function keepReply (request: Carrier, reply: FastifyReply): void {
  request[replyOf] = reply
}

/** Whether the response of a request that has passed the hook is still open. */
export function isResponseOpen (request: Carrier): boolean {
  const reply = request[replyOf]
  return reply !== undefined && !hasResponseEnded(request, reply)
}

/** Ends a permit when the response of its request closes; at once if it has closed. All permits of a request share one listener. */
export function endWithResponse (permit: Permit): void {
  const request: Carrier = permit.request
  const { [replyOf]: reply, [followedPermits]: followed } = request
  if (!permit.isOpen || reply === undefined) return
  if (followed === null) permit.end()
  else if (followed !== undefined) followed.add(permit)
  else follow(new Set([permit]), request, reply)
}

function follow (permits: Set<Permit>, request: Carrier, reply: FastifyReply): void {
  request[followedPermits] = permits
  whenResponseEnds(request, reply, () => {
    request[followedPermits] = null
    for (const permit of permits) permit.end()
  })
}

/** The request decorator `quota`. A host can assign to it, which changes the value that it returns, but not the decision. */
export const quotaAccessor = {
  getter (this: Carrier): QuotaDecision | null {
    const { [permitOf]: permit, [shownQuota]: shown } = this
    const decisions = permit === undefined || permit instanceof Promise || shown?.assignedTo === permit ? none : permit.decisions
    return decisions[0] ?? shown?.decision ?? null
  },
  setter (this: Carrier, decision: QuotaDecision | null) {
    this[shownQuota] = { decision, assignedTo: this[permitOf] }
  }
}

/** The request decorator `quotaDecisions`. */
export const decisionsAccessor = {
  getter (this: Carrier): readonly QuotaDecision[] {
    const permit = this[permitOf]
    return permit === undefined || permit instanceof Promise ? none : permit.decisions
  }
}
