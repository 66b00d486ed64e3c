import fastifyEnv from '@fastify/env'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'

/** What the service is told by its environment. */
interface Configuration {
  readonly PORT: number
  readonly HOST: string
  /** What is logged: `trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`. */
  readonly LOG_LEVEL: string
  /** Where browsers reach the service; by default where it listens. */
  readonly PUBLIC_URL: string
  /** The HS256 secret of the service's own tokens, and of its sessions; made at start when there is none. */
  readonly JWT_SECRET: string
  /** The issuer whose bearer tokens are accepted in place of the service's own; none by default. */
  readonly JWT_ISSUER: string
  /** The audience that such tokens must be made for. */
  readonly JWT_AUDIENCE: string
  /** Where that issuer publishes its keys; by default what its discovery document says. */
  readonly JWT_JWKS_URL: string
  /** The OpenID provider that browsers sign in at; by default one for development, which the service runs itself. */
  readonly OIDC_ISSUER: string
  readonly OIDC_CLIENT_ID: string
  /** None where the provider knows the service as a public client. */
  readonly OIDC_CLIENT_SECRET: string
  /** The server that instances share counters and preferences through; none by default. */
  readonly REDIS_URL: string
  /** Whether `GET /metrics` answers; not by default. */
  readonly METRICS: boolean
}

declare module 'fastify' {
  interface FastifyInstance {
    config: Configuration
    /** The origin that browsers know the service by; once it listens. */
    publicUrl (): string
    /** Whether only this machine reaches the service, so that demonstration accounts may sign in. */
    onLoopback: boolean
  }
}

const text = { type: 'string', default: '' }

const schema = {
  type: 'object',
  properties: {
    PORT: { type: 'integer', minimum: 0, maximum: 65535, default: 3000 },
    HOST: { type: 'string', default: '127.0.0.1' },
    LOG_LEVEL: { type: 'string', enum: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], default: 'info' },
    PUBLIC_URL: text,
    JWT_SECRET: text,
    JWT_ISSUER: text,
    JWT_AUDIENCE: text,
    JWT_JWKS_URL: text,
    OIDC_ISSUER: text,
    OIDC_CLIENT_ID: text,
    OIDC_CLIENT_SECRET: text,
    REDIS_URL: text,
    METRICS: { type: 'boolean', default: false }
  }
}

const loopback = new Set(['127.0.0.1', '::1', '[::1]', 'localhost'])

export const configuration = createPlugin(async function configuration (app: FastifyInstance) {
  await app.register(fastifyEnv, { schema })
  app.log.level = app.config.LOG_LEVEL
  for (const name of ['PUBLIC_URL', 'JWT_ISSUER', 'JWT_JWKS_URL', 'OIDC_ISSUER'] as const) checkUrl(name, app.config[name])
  checkTogether('JWT_AUDIENCE', 'JWT_ISSUER', app.config)
  checkTogether('OIDC_CLIENT_ID', 'OIDC_ISSUER', app.config)
  app.decorate('publicUrl', () => app.config.PUBLIC_URL === '' ? app.listeningOrigin : new URL(app.config.PUBLIC_URL).origin)
  // A proxy on this machine brings others to a service that listens on loopback.
  app.decorate('onLoopback', loopback.has(app.config.HOST) && loopback.has(new URL(app.config.PUBLIC_URL || 'http://localhost').hostname))
}, { name: 'configuration' })

// Keys, codes and cookies are as trustworthy as the way they come by: TLS, or never leaving this machine.
function checkUrl (name: string, value: string): void {
  if (value === '') return
  const url = URL.canParse(value) ? new URL(value) : undefined
  const trusted = url?.protocol === 'https:' || (url?.protocol === 'http:' && loopback.has(url.hostname))
  if (!trusted) throw new Error(`${name} must be an https URL, or an http one on loopback; it is "${value}"`)
}

function checkTogether (name: 'JWT_AUDIENCE' | 'OIDC_CLIENT_ID', given: 'JWT_ISSUER' | 'OIDC_ISSUER', config: Configuration): void {
  if (config[given] !== '' && config[name] === '') throw new Error(`${name} must be set where ${given} is`)
}
