import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { publishDecision, type QuotaDecision } from './decision.js'
import type { OperationMatcher } from './operation-matcher.js'
import type { LimitReader } from './preference.js'
import type { Quota } from './quota.js'
import { refusalOf, sendRefusal } from './refusal.js'

/** The hook that takes each request through the rules: operation, limit, caller, store, and refusal or pass. */
export function createQuotaHook (operations: OperationMatcher, limits: LimitReader, quota: Quota) {
  return function quotaHook (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
    const operation = operations.match(request.method, request.routeOptions.url, request.url)
    // A handler that calls reply.callNotFound() sends its request through the hooks once more.
    if (operation === null || request.quota !== null) return done()
    const limit = limits.read(request)
    const decision = typeof limit === 'number'
      ? quota.decide(request, operation, limit)
      : limit.then((awaited) => quota.decide(request, operation, awaited))
    if (decision instanceof Promise) {
      decision.then((awaited) => { conclude(request, reply, awaited, done) }, done)
    } else {
      conclude(request, reply, decision, done)
    }
  }
}

function conclude (request: FastifyRequest, reply: FastifyReply, decision: QuotaDecision, done: HookHandlerDoneFunction): void {
  request.quota = decision
  publishDecision(request, decision)
  const refusal = refusalOf(decision)
  if (refusal === null || !decision.enforced) return done()
  request.log.debug({ outcome: decision.outcome, operation: decision.operation, caller: decision.callerKey?.slice(0, 8) }, 'refused by the quota')
  // A handler timeout of the host may have answered while the store was asked.
  if (!reply.sent) sendRefusal(reply, refusal)
}
