import { hash } from 'node:crypto'
import { subscribe } from 'node:diagnostics_channel'
import fastifyRateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import quotaPlugin, { quotaDecisions, type QuotaStore } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import type { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'

/** What is asked of a subject. */
export interface Scenario {
  readonly limit: number
  readonly asynchronousPreference: boolean
  readonly decisionsSubscribed: boolean
  readonly redis: Redis | undefined
}

/** Puts a subject in front of the protected route of an application. */
export type Subject = (app: FastifyInstance, scenario: Scenario) => Promise<void>

const protectedPath = '/api/analyze-node'
const operations = [{ method: 'GET', path: protectedPath }]
const tooMany = { error: 'Rate limit exceeded. Please wait.', status: 429 }

function keyOf (request: FastifyRequest): string {
  const { iss, sub } = Object(request.user)
  return hash('sha256', `oidc\0${iss}\0${sub}`, 'hex')
}

/** All subjects: keyed by the same SHA-256 of issuer and subject, and without quota headers. */
export const subjects: Record<string, Subject> = {
  async bare (app) {
    declare(app)
  },

  async floor (app, { limit }) {
    const counters = new Map<string, { count: number }>()
    app.addHook('preHandler', (request, reply, done) => {
      if (request.routeOptions.url !== protectedPath) return done()
      const key = keyOf(request)
      let counter = counters.get(key)
      if (counter === undefined) {
        counter = { count: 0 }
        counters.set(key, counter)
      }
      if (performance.now() > 0 && counter.count >= limit) {
        reply.code(429).send(tooMany)
        return
      }
      counter.count += 1
      done()
    })
    declare(app)
  },

  async 'fastify-llm-quota' (app, { limit, asynchronousPreference, decisionsSubscribed, redis }) {
    if (decisionsSubscribed) subscribe(quotaDecisions.name, () => {})
    const store: { store?: QuotaStore } = redis === undefined ? {} : { store: new RedisQuotaStore({ client: redis }) }
    await app.register(quotaPlugin, { ...store, operations, perMinute: limit, ...(asynchronousPreference && { preferences: { get: async () => limit } }) })
    declare(app)
  },

  async '@fastify/rate-limit' (app, { limit, asynchronousPreference, redis }) {
    const off = { 'x-ratelimit-limit': false, 'x-ratelimit-remaining': false, 'x-ratelimit-reset': false }
    await app.register(fastifyRateLimit, {
      global: false,
      hook: 'preHandler',
      timeWindow: 60_000,
      cache: 10_000,
      max: asynchronousPreference ? async () => limit : limit,
      keyGenerator: keyOf,
      addHeaders: { ...off, 'retry-after': true },
      addHeadersOnExceeding: off,
      errorResponseBuilder: () => Object.assign(new Error(tooMany.error), { statusCode: 429 }),
      ...(redis !== undefined && { redis, nameSpace: 'rate-limit:' })
    })
    declare(app, { config: { rateLimit: {} } })
  },

  async 'rate-limiter-flexible' (app, { limit, redis }) {
    const options = { points: limit, duration: 60 }
    const limiter = redis === undefined
      ? new RateLimiterMemory(options)
      : new RateLimiterRedis({ ...options, storeClient: redis, inMemoryBlockOnConsumed: limit + 1 })
    declare(app, {
      preHandler: async (request: FastifyRequest, reply: FastifyReply) => {
        try {
          await limiter.consume(keyOf(request))
        } catch (refused) {
          if (!(refused instanceof RateLimiterRes)) throw refused
          return reply.code(429).header('retry-after', String(Math.ceil(refused.msBeforeNext / 1000))).send(tooMany)
        }
      }
    })
  }
}

function declare (app: FastifyInstance, options: object = {}): void {
  app.get(protectedPath, { exposeHeadRoute: false, ...options }, async () => ({ answer: 'from a model' }))
  app.get('/api/other', { exposeHeadRoute: false }, async () => ({ answer: 'not from a model' }))
}
