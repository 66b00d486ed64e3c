import { hash } from 'node:crypto'
import { subscribe } from 'node:diagnostics_channel'
import fastifyRateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import quotaPlugin, { MemoryQuotaStore, quotaDecisions, tokenAuthentication, type QuotaStore } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import type { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'

/** The options of a server. */
export interface Scenario {
  readonly limit: number
  readonly asynchronousPreference: boolean
  readonly asynchronousStore: boolean
  readonly asynchronousAuthentication: boolean
  readonly decisionsSubscribed: boolean
  readonly redis: Redis | undefined
}

/** Declares the routes of a server, and what limits their requests. */
export type DeclareServer = (app: FastifyInstance, scenario: Scenario) => Promise<void>

const protectedPath = '/api/analyze-node'
const operations = [{ method: 'GET', path: protectedPath }]
const tooMany = { error: 'Rate limit exceeded. Please wait.', status: 429 }

function keyOf (request: FastifyRequest): string {
  const { iss, sub } = Object(request.user)
  return hash('sha256', `oidc\0${iss}\0${sub}`, 'hex')
}

/** All servers, by name. They use the same SHA-256 digest of issuer and subject as the key, and send no quota headers. */
export const servers: Record<string, DeclareServer> = {
  async bare (app) {
    declare(app)
  },

  async 'idle hook' (app) {
    app.addHook('preHandler', (_request, _reply, done) => { done() })
    declare(app)
  },

  async 'reading hook' (app) {
    app.addHook('preHandler', (request, _reply, done) => {
      if (request.routeOptions.url === undefined) throw new Error('no route matched')
      done()
    })
    declare(app)
  },

  async floor (app, { limit }) {
    const counters = new Map<string, { count: number }>()
    app.addHook('preHandler', (request, reply, done) => {
      if (request.routeOptions.url !== protectedPath) return done()
      const counter = counterOf(request, counters)
      if (performance.now() > 0 && counter.count >= limit) {
        reply.code(429).send(tooMany)
        return
      }
      counter.count += 1
      done()
    })
    declare(app)
  },

  async 'least refusal' (app, { limit }) {
    const counters = new Map<string, { count: number }>()
    const body = JSON.stringify(tooMany)
    app.addHook('preHandler', (request, reply, done) => {
      if (request.routeOptions.url !== protectedPath) return done()
      const counter = counterOf(request, counters)
      const now = performance.now()
      if (counter.count >= limit) {
        reply.code(429).header('content-type', 'application/json; charset=utf-8').header('cache-control', 'no-store')
          .header('retry-after', String(60 - Math.floor(now / 1000) % 60)).send(body)
        return
      }
      counter.count += 1
      done()
    })
    declare(app)
  },

  async 'fastify-llm-quota' (app, scenario) {
    const { limit, asynchronousPreference, asynchronousAuthentication, decisionsSubscribed } = scenario
    if (decisionsSubscribed) subscribe(quotaDecisions.name, () => {})
    await app.register(quotaPlugin, {
      ...storeFor(scenario),
      operations,
      perMinute: limit,
      ...(asynchronousPreference && { preferences: { get: async () => limit } }),
      ...(asynchronousAuthentication && { authentication: async ({ user }) => tokenAuthentication(user) })
    })
    declare(app)
  },

  // Beside the requests, model tokens, which the handler reports, and requests in flight.
  async 'fastify-llm-quota with three quotas' (app, { limit }) {
    await app.register(quotaPlugin, { operations, perMinute: limit, quotas: { tokens: { operations, tokensPerMinute: limit }, streams: { operations, inFlight: 2 } } })
    app.get(protectedPath, { exposeHeadRoute: false }, async (request) => {
      app.quotaCharge(request, 10)
      return { answer: 'from a model' }
    })
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

function counterOf (request: FastifyRequest, counters: Map<string, { count: number }>): { count: number } {
  const key = keyOf(request)
  let counter = counters.get(key)
  if (counter === undefined) {
    counter = { count: 0 }
    counters.set(key, counter)
  }
  return counter
}

function storeFor ({ asynchronousStore, redis }: Scenario): { store?: QuotaStore } {
  if (redis !== undefined) return { store: new RedisQuotaStore({ client: redis }) }
  if (!asynchronousStore) return {}
  const memory = new MemoryQuotaStore()
  return {
    store: {
      acquire: async (callerKey, limit) => memory.acquire(callerKey, limit),
      peek: (callerKey) => memory.peek(callerKey),
      forget: (callerKey) => { memory.forget(callerKey) },
      clearCounters: () => { memory.clearCounters() },
      inspect: () => memory.inspect()
    }
  }
}

function declare (app: FastifyInstance, options: object = {}): void {
  app.get(protectedPath, { exposeHeadRoute: false, ...options }, async () => ({ answer: 'from a model' }))
  app.get('/api/other', { exposeHeadRoute: false }, async () => ({ answer: 'not from a model' }))
}
