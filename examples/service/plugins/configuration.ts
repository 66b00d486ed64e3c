import { isIP } from 'node:net'
import fastifyEnv from '@fastify/env'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { connectShared } from '../shared-server.js'
import { isLoopback, isTrusted } from '../trusted-url.js'

/** The settings of the service, from environment variables. */
interface Configuration {
  readonly PORT: number
  readonly HOST: string
  /** The log level: `trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`. */
  readonly LOG_LEVEL: string
  /** The address of the service for browsers. Default: the address that it listens on. */
  readonly PUBLIC_URL: string
  /** The secret of the service's own tokens (HS256) and of its sessions. Default: generated at the first start. */
  readonly JWT_SECRET: string
  /** The issuer whose bearer tokens are accepted instead of the service's own. Default: none. */
  readonly JWT_ISSUER: string
  /** The required audience of that issuer's tokens. */
  readonly JWT_AUDIENCE: string
  /** The URL of that issuer's keys. Default: taken from its discovery document. */
  readonly JWT_JWKS_URL: string
  /** The OpenID provider for logins with a browser. Default: a development provider, which the service runs itself. */
  readonly OIDC_ISSUER: string
  readonly OIDC_CLIENT_ID: string
  /** Empty if the service is a public client of the provider. */
  readonly OIDC_CLIENT_SECRET: string
  /** The server on which instances share counters and preferences. Default: none. */
  readonly REDIS_URL: string
  /** The PostgreSQL database on which instances share counters and preferences instead. Default: none. */
  readonly DATABASE_URL: string
  /** The package of the client for the server at `REDIS_URL`. Default `ioredis`. */
  readonly REDIS_CLIENT: keyof typeof connectShared
  /** Whether the service has the route `GET /metrics`. Default false. */
  readonly METRICS: boolean
  /** The accepted host names in addition to those of `HOST` and `PUBLIC_URL`, separated by commas. */
  readonly ALLOWED_HOSTS: string
  /** The base URL of an OpenAI-compatible API, such as `http://localhost:11434/v1`. Default: the embedded model is used. */
  readonly MODEL_URL: string
  /** The name of the model on that server. */
  readonly MODEL_NAME: string
  /** The API key for that server. Default: none. */
  readonly MODEL_KEY: string
  /** How many calls can wait for the model. Others are answered with 503. */
  readonly MODEL_QUEUE: number
  /** How long a call of the model may take, including the time in the queue, in milliseconds. */
  readonly MODEL_TIMEOUT: number
}

declare module 'fastify' {
  interface FastifyInstance {
    config: Configuration
    /** The origin of the service for browsers. Available when the service listens. */
    publicUrl (): string
    /** Whether only this machine can reach the service, so that the demonstration accounts are available. */
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
    DATABASE_URL: text,
    REDIS_CLIENT: { type: 'string', enum: Object.keys(connectShared), default: 'ioredis' },
    ALLOWED_HOSTS: text,
    METRICS: { type: 'boolean', default: false },
    MODEL_URL: text,
    MODEL_NAME: text,
    MODEL_KEY: text,
    MODEL_QUEUE: { type: 'integer', minimum: 1, maximum: 10_000, default: 100 },
    MODEL_TIMEOUT: { type: 'integer', minimum: 1, maximum: 600_000, default: 30_000 }
  }
}

export const configuration = createPlugin(async function configuration (app: FastifyInstance) {
  await app.register(fastifyEnv, { schema })
  app.log.level = app.config.LOG_LEVEL
  for (const name of ['PUBLIC_URL', 'JWT_ISSUER', 'JWT_JWKS_URL', 'OIDC_ISSUER'] as const) checkUrl(name, app.config[name])
  checkProtocol('REDIS_URL', app.config.REDIS_URL, ['redis', 'rediss'], 'redis://127.0.0.1:6379')
  checkProtocol('DATABASE_URL', app.config.DATABASE_URL, ['postgres', 'postgresql'], 'postgres://127.0.0.1:5432/service')
  if (app.config.REDIS_URL !== '' && app.config.DATABASE_URL !== '') throw new Error('REDIS_URL and DATABASE_URL must not be set together')
  checkProtocol('MODEL_URL', app.config.MODEL_URL, ['http', 'https'], 'http://localhost:11434/v1')
  checkTogether('JWT_AUDIENCE', 'JWT_ISSUER', app.config)
  checkTogether('OIDC_CLIENT_ID', 'OIDC_ISSUER', app.config)
  checkTogether('MODEL_NAME', 'MODEL_URL', app.config)
  app.decorate('publicUrl', () => app.config.PUBLIC_URL === '' ? app.listeningOrigin : new URL(app.config.PUBLIC_URL).origin)
  // With a proxy on this machine, other machines can reach a service that listens on loopback.
  app.decorate('onLoopback', isLoopback(app.config.HOST) && isLoopback(new URL(app.config.PUBLIC_URL || 'http://localhost').hostname))
}, { name: 'configuration' })

// Keys, codes and cookies can only be trusted if they are sent over TLS or within this machine.
function checkUrl (name: string, value: string): void {
  if (value === '' || isTrusted(value)) return
  // Hides the URL if it contains credentials.
  const shown = URL.canParse(value) ? Object.assign(new URL(value), { username: '', password: '' }).href : value
  throw new Error(`${name} must be an https URL, or an http one on loopback; it is "${/@/.test(shown) ? '…' : shown.replace(/\/$/, '')}"`)
}

function checkTogether (name: 'JWT_AUDIENCE' | 'OIDC_CLIENT_ID' | 'MODEL_NAME', given: 'JWT_ISSUER' | 'OIDC_ISSUER' | 'MODEL_URL', config: Configuration): void {
  if (config[given] !== '' && config[name] === '') throw new Error(`${name} must be set if ${given} is set`)
}

// The URL can contain a password, so the message does not show it.
function checkProtocol (name: string, value: string, protocols: readonly string[], example: string): void {
  if (value === '' || (URL.canParse(value) && protocols.some((protocol) => new URL(value).protocol === `${protocol}:`))) return
  throw new Error(`${name} must be a URL with ${protocols.join(' or ')}, such as ${example}`)
}

/** Returns the host names that the service accepts. */
export function namesOf ({ HOST, PUBLIC_URL, ALLOWED_HOSTS }: Configuration): string[] {
  const own = isIP(HOST) === 0 ? [HOST] : []
  const published = PUBLIC_URL === '' ? [] : [new URL(PUBLIC_URL).hostname]
  return [...own, ...published, ...ALLOWED_HOSTS.split(',').map((name) => name.trim()).filter((name) => name !== '')]
}
