import { anthropicError, openaiError } from '../model/refusal-bodies.js'
import type { QuotaDecision } from '../permit/decision.js'
import { messageOf, statuses, type RefusalBody } from './refusal.js'

const contentType = 'application/json; charset=utf-8'

/**
 * Writes the body of a refusal in the form of OpenAI's API, for the option `refusalBody`: clients
 * of that API then report the quota's message. The status and the headers do not change.
 *
 * @param decision The decision that refuses.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import { openaiRefusal, quotaPlugin } from 'fastify-llm-quota'
 *
 * const fastify = Fastify()
 * await fastify.register(quotaPlugin, { refusalBody: openaiRefusal })
 * ```
 */
export function openaiRefusal (decision: QuotaDecision): RefusalBody {
  const status = statuses[decision.outcome]
  const unit = decision.unit === 'tokens' ? 'tokens' : 'requests'
  return { contentType, body: openaiError(status, messageOf(status, decision), unit) }
}

/**
 * Writes the body of a refusal in the form of Anthropic's API, for the option `refusalBody`, as
 * `openaiRefusal` does in that of OpenAI's. Its `request_id` is the id of the request.
 *
 * @param decision The decision that refuses.
 */
export function anthropicRefusal (decision: QuotaDecision): RefusalBody {
  const status = statuses[decision.outcome]
  const body = anthropicError(status, messageOf(status, decision), decision.reference)
  return { contentType, body }
}
