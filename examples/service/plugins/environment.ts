import fastifyEnv from '@fastify/env'
import { type Static, Type } from '@fastify/type-provider-typebox'
import createPlugin from 'fastify-plugin'

const schema = Type.Object({
  HOST: Type.String({ default: '127.0.0.1' }),
  PORT: Type.Integer({ minimum: 0, maximum: 65535, default: 3000 }),
  LOG_LEVEL: Type.String({
    pattern: '^(trace|debug|info|warn|error|fatal|silent)$',
    default: 'info'
  }),
  /** Verifies tokens (HS256). Default: generated at the first start. */
  JWT_SECRET: Type.Optional(Type.String({ minLength: 32 })),
  /** A Redis server, or a PostgreSQL database, that several instances share. Default: neither. */
  REDIS_URL: Type.Optional(Type.String({ pattern: '^rediss?://' })),
  DATABASE_URL: Type.Optional(Type.String({ pattern: '^postgres(ql)?://' })),
  METRICS: Type.Boolean({ default: false }),
  /** An OpenAI-compatible API, such as `http://localhost:11434/v1`. Default: the embedded model. */
  MODEL_URL: Type.Optional(Type.String({ pattern: '^https?://' })),
  MODEL_NAME: Type.Optional(Type.String({ minLength: 1 })),
  MODEL_KEY: Type.String({ default: 'none' }),
  /** How long a call of the model may take, in milliseconds. */
  MODEL_TIMEOUT: Type.Integer({ minimum: 1, default: 30_000 })
})

declare module 'fastify' {
  interface FastifyInstance {
    config: Static<typeof schema>
  }
}

/** Reads the settings of the service from environment variables. */
export default createPlugin(
  async function environment (app) {
    const together = {
      dependencies: { MODEL_URL: ['MODEL_NAME'] },
      not: { required: ['REDIS_URL', 'DATABASE_URL'] }
    }
    await app.register(fastifyEnv, { schema: { ...schema, ...together } })
    app.log.level = app.config.LOG_LEVEL
  },
  { name: 'environment' }
)
