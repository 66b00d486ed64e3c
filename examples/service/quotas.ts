import type { FastifyRequest } from 'fastify'
import { protectedOperations, type QuotaDefinition } from 'fastify-llm-quota'

/**
 * The quotas beside the default one. Their limit is 0, so they are off until an environment variable or an administrator sets a limit:
 * model tokens per minute, and streams at once.
 */
export const quotas: Record<string, QuotaDefinition> = {
  tokens: { operations: [...protectedOperations], tokensPerMinute: 0, unreportedTokens: estimatedTokens },
  streams: { operations: [{ method: 'GET', path: '/api/analyze-stream' }], inFlight: 0 }
}

/** The names of all quotas by the keys of the preferences that hold their limits. */
export const quotaNames: Readonly<Record<string, string>> = {
  'rate-limit.per-minute': 'default',
  'rate-limit.tokens.tokens-per-minute': 'tokens',
  'rate-limit.streams.in-flight': 'streams'
}

// A model does not report the tokens of an answer that was aborted. In English, a token has about four characters.
function estimatedTokens ({ query, body }: FastifyRequest): number {
  const { businessText = '' } = Object(body ?? query)
  return Math.ceil(String(businessText).length / 4)
}
