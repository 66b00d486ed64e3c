import type { QuotaDecision } from '../permit/decision.js'
import { jsonType, messageOf, statuses, type RefusalBody } from './refusal.js'

const openaiErrors = {
  401: { type: 'invalid_request_error', code: 'invalid_api_key' },
  // The type says what the limit counts.
  429: { type: null, code: 'rate_limit_exceeded' },
  503: { type: 'server_error', code: null }
} as const

const anthropicTypes = {
  401: 'authentication_error',
  429: 'rate_limit_error',
  503: 'api_error'
} as const

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
  const message = messageOf(status, decision)
  const limited = decision.unit === 'tokens' ? 'tokens' : 'requests'
  const { type, code } = openaiErrors[status]
  const body = JSON.stringify({ error: { message, type: type ?? limited, param: null, code } })
  return { contentType: jsonType, body }
}

/**
 * Writes the body of a refusal in the form of Anthropic's API, for the option `refusalBody`, as
 * `openaiRefusal` does in that of OpenAI's. Its `request_id` is the id of the request.
 *
 * @param decision The decision that refuses.
 */
export function anthropicRefusal (decision: QuotaDecision): RefusalBody {
  const status = statuses[decision.outcome]
  const error = { type: anthropicTypes[status], message: messageOf(status, decision) }
  const body = JSON.stringify({ type: 'error', error, request_id: decision.reference })
  return { contentType: jsonType, body }
}
