// Prints where the governing quota and the earlier one decide differently about a request. Load it into a service that
// runs both, the governing one first and in shadow mode:  node --import ./compare-decisions.js service.js
import { subscribe } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { QuotaDecisionMessage } from 'fastify-llm-quota'
import type { EarlierQuotaDecisionMessage } from 'fastify-llm-quota/earlier'

const governing = new WeakMap<FastifyRequest, QuotaDecisionMessage['decision']>()
const passes = new Set(['admitted', 'disabled'])
const seen = { alike: 0, different: 0 }

subscribe('fastify-llm-quota:decision', (message) => {
  const { request, decision } = message as QuotaDecisionMessage
  governing.set(request, decision)
})

subscribe('fastify-llm-quota:earlier-decision', (message) => {
  const { request, decision } = message as EarlierQuotaDecisionMessage
  // The earlier quota is for any method; where the governing one has not decided, the request is not subject to it.
  const outcome = governing.get(request)?.outcome ?? 'not subject'
  const differs = (passes.has(outcome) || outcome === 'not subject') !== passes.has(decision.outcome)
  seen[differs ? 'different' : 'alike'] += 1
  if (differs) {
    const { method, path } = decision.operation
    console.log(`${method} ${path}: earlier ${decision.outcome}, governing ${outcome} (${seen.different} different, ${seen.alike} alike so far)`)
  }
})
