import type { FastifyReply, FastifyRequest } from 'fastify'
import quotaPlugin, { callerKey, protectedOperations } from 'fastify-llm-quota'
import createPlugin from 'fastify-plugin'
import { mostAnswered, mostInstructed, tokensOf } from '../model/model.js'
import { authenticationOf } from './authentication.js'

/** The preferences that hold the limits of the quotas. */
export const limitKeys = [
  'rate-limit.per-minute',
  'rate-limit.tokens.per-minute',
  'rate-limit.concurrency.concurrent'
]

declare module 'fastify' {
  interface FastifyInstance {
    /** How many requests of the caller wait for room. */
    waitingOf(request: FastifyRequest): number
  }
}

/**
 * The default quota, and two that are off until an environment variable or an administrator sets
 * their limits. A request that finds no free place waits for one.
 */
export default createPlugin(
  async function quota (app) {
    const operations = [...protectedOperations]
    const isRemote = app.config.MODEL_URL !== undefined
    const waiting = new Waiting()
    app.decorate('waitingOf', (request) => waiting.of(request))
    // Hooks run in the order in which they are added, and the quota's own is between these two.
    app.addHook('preHandler', async (request, reply) => {
      waiting.arrive(request, reply)
    })
    await app.register(quotaPlugin, {
      authentication: authenticationOf,
      preferenceTimeout: 250,
      quotas: {
        tokens: {
          operations,
          perMinute: { tokens: 0 },
          // As much of it as there is room for, so that it fits into any limit.
          cost: (request: OperationRequest) => ({
            least: 1,
            most: mostTokens(textOf(request), isRemote)
          })
        },
        concurrency: { operations, concurrent: 0, wait: 10_000 }
      }
    })
    app.addHook('preHandler', async (request) => {
      waiting.leave(request)
    })
  },
  { name: 'quota', dependencies: ['authentication', 'shared'] }
)

/** A request of an operation, whose schema has checked that it has a text. */
type OperationRequest = FastifyRequest<{
  Body: { businessText: string } | undefined
  Querystring: { businessText: string }
}>

function textOf ({ body, query }: OperationRequest): string {
  const { businessText } = body ?? query
  return businessText
}

/** Counted until the model has reported its tokens, and for good if it does not. */
function mostTokens (text: string, isRemote: boolean): number {
  // The embedded model has no instructions, and counts the text alone.
  return isRemote ? mostInstructed + tokensOf(text) + mostAnswered(text) : tokensOf(text)
}

/** The requests that have reached the quotas, and have not been admitted or refused yet. */
class Waiting {
  readonly #byCaller = new Map<string | null, Set<FastifyRequest>>()

  arrive (request: FastifyRequest, reply: FastifyReply): void {
    const key = keyOf(request)
    const requests = this.#byCaller.get(key) ?? new Set()
    this.#byCaller.set(key, requests.add(request))
    reply.raw.once('close', () => {
      this.leave(request)
    })
  }

  leave (request: FastifyRequest): void {
    const key = keyOf(request)
    const requests = this.#byCaller.get(key)
    requests?.delete(request)
    if (requests?.size === 0) this.#byCaller.delete(key)
  }

  of (request: FastifyRequest): number {
    return this.#byCaller.get(keyOf(request))?.size ?? 0
  }
}

function keyOf (request: FastifyRequest): string | null {
  const authentication = authenticationOf(request)
  return authentication && callerKey(authentication)
}
