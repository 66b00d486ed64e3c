import { hash } from 'node:crypto'
import fastifyRateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import quotaPlugin, { type QuotaOptions, type QuotaStore } from 'fastify-llm-quota'
import { PostgresQuotaStore } from 'fastify-llm-quota/postgres'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import type { Redis } from 'ioredis'
import type { Pool } from 'pg'
import {
  RateLimiterMemory,
  RateLimiterPostgres,
  RateLimiterRedis,
  RateLimiterRes
} from 'rate-limiter-flexible'

/** Where limiters count: on the server of the client that is given, otherwise in memory. */
export interface Place {
  readonly redis?: Redis
  readonly pool?: Pool
}

/** The table of `rate-limiter-flexible`, unlogged like that of this package. */
export const peerTable =
  'CREATE UNLOGGED TABLE peer (key varchar(255) PRIMARY KEY, points integer NOT NULL ' +
  'DEFAULT 0, expire bigint)'

/** The table of a `PostgresQuotaStore` with a journal. */
export const journalTable = 'billed'

export const path = '/api/analyze-node'
/** The path of a route that no limiter protects. */
export const unprotectedPath = '/api/status'
// Tokens of a request.
const estimate = 100
const used = 90
const operations = [{ method: 'GET', path }]
const tooMany = { error: 'Rate limit exceeded. Please wait.', status: 429 }

/**
 * What is compared: each declares the route at `path`, with a limit for each caller, and one that
 * is not protected. The key is always the same digest, and no quota headers are sent.
 */
export const limiters: Record<
  string,
  (app: FastifyInstance, limit: number, place: Place) => Promise<void>
> = {
  'Fastify alone': async (app) => {
    declare(app)
  },

  'Fastify alone, again': async (app) => {
    declare(app)
  },

  'fastify-llm-quota': async (app, limit, place) => {
    await app.register(quotaPlugin, { ...storeAt(place), operations, perMinute: limit })
    declare(app)
  },

  'fastify-llm-quota, again': async (app, limit, place) => {
    await app.register(quotaPlugin, { ...storeAt(place), operations, perMinute: limit })
    declare(app)
  },

  'fastify-llm-quota, three quotas': declareThree,

  'fastify-llm-quota, three quotas, again': declareThree,

  // On logged tables, each change of the tokens is also written down.
  'fastify-llm-quota, three quotas with a journal': async (app, limit, { pool }) => {
    if (pool === undefined) throw new TypeError('there is no pool of PostgreSQL')
    const store = new PostgresQuotaStore({
      pool,
      table: journalTable,
      journal: true
    })
    await registerThree(app, limit, { store })
  },

  '@fastify/rate-limit': async (app, limit, { redis }) => {
    const off = {
      'x-ratelimit-limit': false,
      'x-ratelimit-remaining': false,
      'x-ratelimit-reset': false
    }
    await app.register(fastifyRateLimit, {
      global: false,
      hook: 'preHandler',
      timeWindow: 60_000,
      cache: 10_000,
      max: limit,
      keyGenerator: keyOf,
      addHeaders: { ...off, 'retry-after': true },
      addHeadersOnExceeding: off,
      errorResponseBuilder: () => Object.assign(new Error(tooMany.error), { statusCode: 429 }),
      ...(redis !== undefined && { redis, nameSpace: 'rate-limit:' })
    })
    declare(app, { config: { rateLimit: {} } })
  },

  'rate-limiter-flexible': async (app, limit, place) => {
    const limiter = peerLimiter('requests', limit, place)
    declare(app, {
      preHandler: async (request: FastifyRequest, reply: FastifyReply) => {
        try {
          await limiter.consume(keyOf(request))
        } catch (rejected) {
          return refuse(reply, rejected)
        }
      }
    })
  },

  // The work of three quotas: it consumes from three limits, and gives back what was not used of
  // two of them after the response. It does not do this in one step.
  'rate-limiter-flexible, three limits': async (app, limit, place) => {
    const requests = peerLimiter('requests', limit, place)
    const tokens = peerLimiter('tokens', 1_000_000_000, place)
    const concurrent = peerLimiter('concurrent', 1_000, place)
    declare(app, {
      preHandler: async (request: FastifyRequest, reply: FastifyReply) => {
        const key = keyOf(request)
        try {
          await Promise.all([
            requests.consume(key),
            tokens.consume(key, estimate),
            concurrent.consume(key)
          ])
        } catch (rejected) {
          return refuse(reply, rejected)
        }
      },
      onResponse: async (request: FastifyRequest) => {
        const key = keyOf(request)
        await Promise.all([tokens.reward(key, estimate - used), concurrent.reward(key)])
      }
    })
  }
}

async function declareThree (app: FastifyInstance, limit: number, place: Place): Promise<void> {
  await registerThree(app, limit, storeAt(place))
}

async function registerThree (
  app: FastifyInstance,
  limit: number,
  options: { store?: QuotaStore }
): Promise<void> {
  const quotas = {
    tokens: { operations, perMinute: { tokens: 1_000_000_000 }, cost: estimate },
    streams: { operations, concurrent: 1_000 }
  } satisfies QuotaOptions['quotas']
  await app.register(quotaPlugin, { ...options, operations, perMinute: limit, quotas })
  declare(app, {}, (request) => {
    request.quota.charge(used)
  })
}

function peerLimiter (keyPrefix: string, points: number, { redis, pool }: Place) {
  const options = { keyPrefix, points, duration: 60 }
  if (redis !== undefined) return new RateLimiterRedis({ ...options, storeClient: redis })
  if (pool === undefined) return new RateLimiterMemory(options)
  return new RateLimiterPostgres({
    ...options,
    storeClient: pool,
    tableName: 'peer',
    tableCreated: true,
    clearExpiredByTimeout: false
  })
}

/** Responds with 429, unless it is another error. */
function refuse (reply: FastifyReply, rejected: unknown): FastifyReply {
  if (!(rejected instanceof RateLimiterRes)) throw rejected
  return reply
    .code(429)
    .header('retry-after', String(Math.ceil(rejected.msBeforeNext / 1000)))
    .send(tooMany)
}

/**
 * Makes the claims of a token of each request, whose subject is in its header `x-subject`, and
 * registers as many plugins as a service has.
 */
export async function prepare (app: FastifyInstance): Promise<void> {
  app.decorateRequest('user')
  app.addHook('onRequest', (request, _reply, done) => {
    request.user = {
      iss: 'https://identity.example/realms/taxonomy',
      sub: request.headers['x-subject']
    }
    done()
  })
  // The first plugins of an application change how V8 compiles its requests, whatever they do. This
  // must not count as a cost of the limiter.
  for (let registered = 0; registered < 6; registered++) await app.register(async () => {})
}

function storeAt ({ redis, pool }: Place): { store?: QuotaStore } {
  if (redis !== undefined) return { store: new RedisQuotaStore({ client: redis }) }
  return pool === undefined ? {} : { store: new PostgresQuotaStore({ pool }) }
}

function keyOf (request: FastifyRequest): string {
  const { iss, sub } = Object(request.user)
  return hash('sha256', `oidc\0${iss}\0${sub}`, 'hex')
}

function declare (
  app: FastifyInstance,
  options: object = {},
  run: (request: FastifyRequest) => void = () => {}
): void {
  app.get(path, { exposeHeadRoute: false, ...options }, async (request) => {
    run(request)
    return { result: 'from a model' }
  })
  app.get(unprotectedPath, { exposeHeadRoute: false }, async () => ({ result: 'up' }))
}
