import { Writable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { createService } from '../../examples/service/service.js'
import { ownIssuer } from '../../examples/service/plugins/tokens.js'

/** The example service in the process of the test, listening on a free port. */
export interface RunningService {
  readonly app: FastifyInstance
  readonly address: string
  /** The log so far, by line. */
  readonly log: readonly string[]
  /** Sends a request with a token that the service issued. */
  as (subject: string, path: string, request?: RequestInit & { claims?: object }): Promise<Response>
  /** A token that the service issued. */
  token (subject: string, claims?: object): Promise<string>
  /** Sends JSON. The subject `root` is an administrator. */
  post (subject: string, path: string, body: unknown, method?: string): Promise<Response>
  /** Sends a text to be analyzed, with the given credentials. */
  analyze (authorization?: string): Promise<Response>
  trackedCallers (): Promise<number | undefined>
}

/** A request to analyze a text. */
export const analysis = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"businessText":"Invoices are late."}' }

/** Starts the service with the given environment, and closes it after the test. */
export async function startService (t: Test, environment: Record<string, string> = {}, clock?: () => number): Promise<RunningService> {
  const log: string[] = []
  const stream = new Writable({
    write (chunk, _encoding, done) {
      log.push(String(chunk))
      done()
    }
  })
  for (const name of Object.keys(process.env)) if (/^(JWT_|OIDC_|MODEL_|PUBLIC_URL|ALLOWED_HOSTS|HOST|REDIS_|DATABASE_URL|METRICS|LOG_LEVEL|SERVICE_RATE)/.test(name)) Reflect.deleteProperty(process.env, name)
  Object.assign(process.env, { PORT: '0', ...environment })
  const app = await createService({ log: stream, ...(clock && { clock }) })
  t.teardown(() => app.close())
  await app.listen({ host: '127.0.0.1', port: 0 })
  const token = async (subject: string, claims: object = {}): Promise<string> => app.jwt.sign({ iss: ownIssuer, sub: subject, ...claims })
  const as: RunningService['as'] = async (subject, path, { claims = {}, ...request } = {}) =>
    await fetch(app.listeningOrigin + path, { ...request, headers: { ...Object.fromEntries(new Headers(request.headers)), authorization: `Bearer ${await token(subject, claims)}` } })
  return {
    app,
    address: app.listeningOrigin,
    log,
    token,
    as,
    analyze: async (authorization) => await fetch(`${app.listeningOrigin}/api/analyze`, { ...analysis, headers: { ...analysis.headers, ...(authorization !== undefined && { authorization }) } }),
    trackedCallers: async () => (await app.quotaStore.inspect?.())?.trackedCallers,
    post: async (subject, path, body, method = 'POST') => await as(subject, path, {
      method, body: typeof body === 'string' ? body : JSON.stringify(body), headers: { 'content-type': 'application/json' }, claims: subject === 'root' ? { role: 'admin' } : {}
    })
  }
}
