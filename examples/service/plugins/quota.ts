import type { FastifyRequest } from 'fastify'
import quotaPlugin, { protectedOperations } from 'fastify-llm-quota'
import createPlugin from 'fastify-plugin'
import { mostAnswered, mostInstructed, tokensOf } from '../model/model.js'
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
    const isRemote = app.config.MODEL_URL !== undefined
    await app.register(quotaPlugin, {
      authentication: authenticationOf,
      preferenceTimeout: 250,
      quotas: {
        tokens: {
          operations,
          perMinute: { tokens: 0 },
          // As much of it as there is room for, so that it fits into any limit.
          cost: (request) => ({ least: 1, most: mostTokens(textOf(request), isRemote) })
        },
        concurrency: { operations, concurrent: 0 }
      }
    })
  },
  { name: 'quota', dependencies: ['authentication', 'shared'] }
)

function textOf ({ body, query }: FastifyRequest): string {
  const { businessText = '' } = Object(body ?? query)
  return String(businessText)
}

/** Counted until the model has reported its tokens, and for good if it does not. */
function mostTokens (text: string, isRemote: boolean): number {
  // The embedded model has no instructions, and counts the text alone.
  return isRemote ? mostInstructed + tokensOf(text) + mostAnswered(text) : tokensOf(text)
}
