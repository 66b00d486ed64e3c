import type { FastifyRequest } from 'fastify'
import quotaPlugin, { protectedOperations } from 'fastify-llm-quota'
import createPlugin from 'fastify-plugin'
import { authenticationOf } from './authentication.js'

/** The preferences that hold the limits of the quotas. */
export const limitKeys = [
  'rate-limit.per-minute',
  'rate-limit.tokens.per-minute',
  'rate-limit.concurrency.concurrent'
]

/**
 * The default quota, and two that are off until an environment variable or an administrator sets
 * their limits.
 */
export default createPlugin(
  async function quota (app) {
    const operations = [...protectedOperations]
    await app.register(quotaPlugin, {
      authentication: authenticationOf,
      preferenceTimeout: 250,
      quotas: {
        tokens: { operations, perMinute: { tokens: 0 }, cost: estimatedTokens },
        concurrency: { operations, concurrent: 0 }
      }
    })
  },
  { name: 'quota', dependencies: ['authentication', 'shared'] }
)

// Counted until the model has reported its tokens, and for good if it does not. In English, a token
// has about four characters.
function estimatedTokens ({ body, query }: FastifyRequest): number {
  const { businessText = '' } = Object(body ?? query)
  return Math.ceil(String(businessText).length / 4)
}
