import fastifyEnv from '@fastify/env'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'

/** What the service is told by its environment. */
interface Configuration {
  readonly PORT: number
  readonly HOST: string
  /** The HS256 secret that tokens are verified with; made at start when there is none. */
  readonly JWT_SECRET: string
  /** The server that instances share counters and preferences through; none by default. */
  readonly REDIS_URL: string
  /** Whether `GET /metrics` answers; not by default. */
  readonly METRICS: boolean
}

declare module 'fastify' {
  interface FastifyInstance {
    config: Configuration
  }
}

const schema = {
  type: 'object',
  properties: {
    PORT: { type: 'integer', minimum: 0, maximum: 65535, default: 3000 },
    HOST: { type: 'string', default: '127.0.0.1' },
    JWT_SECRET: { type: 'string', default: '' },
    REDIS_URL: { type: 'string', default: '' },
    METRICS: { type: 'boolean', default: false }
  }
}

export const configuration = createPlugin(async function configuration (app: FastifyInstance) {
  await app.register(fastifyEnv, { schema })
}, { name: 'configuration' })
