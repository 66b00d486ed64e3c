import fastifyJwt from '@fastify/jwt'
import Fastify, {
  type FastifyInstance,
  type FastifyServerOptions,
  type InjectOptions,
  type RouteHandlerMethod
} from 'fastify'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import {
  localAuthentication,
  protectedOperations,
  quotaDecisions,
  quotaPlugin,
  type QuotaDecisionMessage,
  type QuotaOptions
} from '../../lib/index.js'

export const issuer = 'https://identity.example/realms/taxonomy'

/** A log that a test can read line by line. */
export function captureLog (level = 'info') {
  const lines: Record<string, unknown>[] = []
  const stream = {
    write (line: string) {
      lines.push(JSON.parse(line))
    }
  }
  const at = (level: number) => lines.filter((line) => line.level === level)
  const messages = (level: number) => at(level).map(({ msg }) => String(msg))
  return {
    lines,
    /** The messages of the warnings. */
    warnings: () => messages(40),
    /** The messages of the errors. */
    errors: () => messages(50),
    /** The lines of the errors. */
    failures: () => at(50),
    /** The lines of the warnings and errors. */
    problems: () => [...at(40), ...at(50)],
    logger: { level, stream }
  }
}

/** Verifies bearer tokens, if present, as a host does with @fastify/jwt. */
async function verifyTokens (app: FastifyInstance): Promise<void> {
  await app.register(fastifyJwt, {
    secret: 'a secret for the tests alone, thirty-two bytes or more'
  })
  app.addHook('onRequest', async (request) => {
    if (request.headers.authorization !== undefined) await request.jwtVerify()
  })
}

/** What a host does beside registering the plugin. */
interface Host {
  /** Runs before the plugin is registered. */
  readonly before?: (app: FastifyInstance) => unknown
  /** Handles the four operations. Default: returns the path. */
  readonly handler?: RouteHandlerMethod
}

/** A service that verifies tokens and protects the four default operations. */
export async function createService (
  options: QuotaOptions = {},
  server: FastifyServerOptions = {},
  { before, handler }: Host = {}
): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify(server)
  await verifyTokens(app)
  await before?.(app)
  await app.register(quotaPlugin, options)
  for (const { method, path } of protectedOperations) {
    app.route({
      method,
      url: path,
      exposeHeadRoute: false,
      handler: handler ?? (async () => ({ ran: path }))
    })
  }
  return app
}

/** Returns the headers of a caller with a real token. */
export function bearer (app: FastifyInstance, claims: object): { authorization: string } {
  return { authorization: `Bearer ${app.jwt.sign(claims)}` }
}

export function analyze (app: FastifyInstance, claims: object | null, request: InjectOptions = {}) {
  const headers = claims === null ? {} : bearer(app, claims)
  return app.inject({
    method: 'POST',
    url: '/api/analyze',
    ...request,
    headers: { ...headers, ...request.headers }
  })
}

/**
 * Returns the statuses of several requests of a caller to `POST /api/analyze`, one after another.
 */
export async function statuses (
  app: FastifyInstance,
  claims: object | null,
  count: number,
  request?: InjectOptions
): Promise<number[]> {
  const received = []
  for (let asked = 0; asked < count; asked++) {
    received.push((await analyze(app, claims, request)).statusCode)
  }
  return received
}

/**
 * Returns the messages that are published on a channel, by default the decisions, while a function
 * runs.
 */
export async function published<Message = QuotaDecisionMessage> (
  run: () => Promise<unknown>,
  channel: string | symbol = quotaDecisions.name
): Promise<Message[]> {
  const messages: Message[] = []
  const note = (message: unknown): void => {
    messages.push(message as Message)
  }
  subscribe(channel, note)
  await run()
  unsubscribe(channel, note)
  return messages
}

/** An authentication as alice. */
export const asAlice = () => localAuthentication('alice')

export const alice = { iss: issuer, sub: 'alice' }
export const bob = { iss: issuer, sub: 'bob' }
