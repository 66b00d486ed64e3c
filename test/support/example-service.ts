import { Writable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { createService } from '../../examples/service/service.js'

/** The example service in the process of the test, listening on a free port. */
export interface RunningService {
  readonly app: FastifyInstance
  readonly address: string
  /** The log so far, by line. */
  readonly log: readonly string[]
  /**
   * Sends a request with a token of the service; a body as JSON. The subject `root` is an
   * administrator.
   */
  as(
    subject: string,
    path: string,
    request?: { method?: string; body?: unknown; signal?: AbortSignal }
  ): Promise<Response>
  /** Where a caller stands, by the name of the quota. */
  standing(
    subject: string
  ): Promise<Record<string, { limit: number; count: number; remaining: number | null }>>
}

const settings =
  /^(HOST|PORT|LOG_LEVEL|JWT_SECRET|REDIS_URL|DATABASE_URL|METRICS|MODEL_|SERVICE_RATE)/

/**
 * The start of the latest service. They start one after another, because each reads its settings
 * from the environment of the process.
 */
let starting: Promise<unknown> = Promise.resolve()

/** Starts the service with the given environment, and closes it after the test. */
export async function startService (
  t: Test,
  environment: Record<string, string> = {},
  clock?: () => number
): Promise<RunningService> {
  const log: string[] = []
  const stream = new Writable({
    write (chunk, _encoding, done) {
      log.push(String(chunk))
      done()
    }
  })
  const created = starting.then(async () => {
    for (const name of Object.keys(process.env)) {
      if (settings.test(name)) Reflect.deleteProperty(process.env, name)
    }
    Object.assign(process.env, environment)
    return createService({ log: stream, ...(clock && { clock }) })
  })
  starting = created.catch(() => {})
  const app = await created
  t.teardown(() => app.close())
  await app.listen({ host: '127.0.0.1', port: 0 })
  const address = app.listeningOrigin
  const as: RunningService['as'] = async (subject, path, { method = 'GET', body, signal } = {}) => {
    const claims = { sub: subject, ...(subject === 'root' && { role: 'admin' }) }
    const authorization = `Bearer ${app.jwt.sign(claims)}`
    const json =
      body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
    const headers = {
      authorization,
      ...(body !== undefined && { 'content-type': 'application/json' })
    }
    return await fetch(address + path, { method, headers, ...json, ...(signal && { signal }) })
  }
  return {
    app,
    address,
    log,
    as,
    async standing (subject) {
      const { quotas } = (await (await as(subject, '/api/quota')).json()) as {
        quotas: { quota: string; limit: number; count: number; remaining: number | null }[]
      }
      return Object.fromEntries(
        quotas.map(({ quota, limit, count, remaining }) => [quota, { limit, count, remaining }])
      )
    }
  }
}

export const text = { businessText: 'Invoices are late.' }
/** A request to analyze the text. */
export const analysis = { method: 'POST', body: text }
/** The path of a stream of the text. */
export const stream = `/api/analyze-stream?${new URLSearchParams(text).toString()}`
