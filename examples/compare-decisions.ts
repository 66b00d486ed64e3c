// Prints each request on which the quota and the earlier quota decide differently. Load it into a service that runs both, with the
// new quota first and in shadow mode:  node --import ./compare-decisions.js service.js
import { subscribe } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { QuotaDecisionMessage } from 'fastify-llm-quota'
import type { EarlierQuotaDecisionMessage } from 'fastify-llm-quota/earlier'

const decisions = new WeakMap<FastifyRequest, QuotaDecisionMessage['decision']>()
const passes = new Set(['admitted', 'disabled'])
const seen = { alike: 0, different: 0 }

subscribe('fastify-llm-quota:decision', (message) => {
  const { request, decision } = message as QuotaDecisionMessage
  decisions.set(request, decision)
})

subscribe('fastify-llm-quota:earlier-decision', (message) => {
  const { request, decision } = message as EarlierQuotaDecisionMessage
  // The earlier quota applies to any method. A request without a decision of the new quota is not subject to it.
  const outcome = decisions.get(request)?.outcome ?? 'not subject'
  const differs = (passes.has(outcome) || outcome === 'not subject') !== passes.has(decision.outcome)
  seen[differs ? 'different' : 'alike'] += 1
  if (differs) {
    const { method, path } = decision.operation
    console.log(`${method} ${path}: earlier ${decision.outcome}, new ${outcome} (${seen.different} different, ${seen.alike} alike so far)`)
  }
})
