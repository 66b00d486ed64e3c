import { once } from 'node:events'
import Fastify, {
  type FastifyInstance,
  type FastifyRequest,
  type FastifyServerOptions,
  type InjectOptions
} from 'fastify'
import quotaPlugin, {
  localAuthentication,
  MemoryQuotaStore,
  type AuthenticationReader,
  type QuotaOptions,
  type QuotaStanding,
  type RouteMark
} from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'

/** Reads the caller from the header `x-caller`; alice by default, and nobody if it is empty. */
export const fromHeader: AuthenticationReader = ({ headers }) => {
  const caller = headers['x-caller'] ?? 'alice'
  return caller === '' ? null : localAuthentication(String(caller))
}

/** Reads the caller's organisation from the header `x-organisation`; nobody if it is not set. */
export const fromOrganisation: AuthenticationReader = ({ headers }) => {
  const organisation = headers['x-organisation']
  return organisation === undefined ? null : localAuthentication(String(organisation))
}

/**
 * A service in virtual time whose routes `POST /marked`, which returns its decisions, and `POST
 * /held` belong to the quotas of a mark.
 */
export async function createHost (
  mark: RouteMark,
  options: QuotaOptions = {},
  server: FastifyServerOptions = {}
) {
  const clock = new VirtualClock()
  const app: FastifyInstance = Fastify(server)
  const store = new MemoryQuotaStore({ clock: clock.now })
  await app.register(quotaPlugin, { operations: [], authentication: fromHeader, store, ...options })
  app.post('/marked', { config: { quota: mark } }, async ({ quota }) => quota.decisions)
  const ask = (request: InjectOptions = {}) =>
    app.inject({ method: 'POST', url: '/marked', ...request })
  /** Returns the statuses of several requests of a caller, one after another. */
  const statuses = async (
    count: number,
    headers: Record<string, string> = {}
  ): Promise<number[]> => {
    const received = []
    for (let request = 0; request < count; request++) {
      received.push((await ask({ headers })).statusCode)
    }
    return received
  }
  /** Returns where a caller stands in each of these quotas; null where nobody is named. */
  const standings = async (
    names: readonly string[],
    headers: Record<string, string> = {}
  ): Promise<(QuotaStanding | null)[]> => {
    const { json } = await app.inject({
      url: '/standings',
      headers,
      query: { names: names.join() }
    })
    return json()
  }
  /** Returns what is counted in each of these quotas for a caller. */
  const counts = async (
    names: readonly string[],
    headers: Record<string, string> = {}
  ): Promise<unknown[]> => (await standings(names, headers)).map((standing) => standing?.count)
  app.get<{ Querystring: { names: string } }>('/standings', async (request) =>
    Promise.all(
      request.query.names.split(',').map(async (name) => app.quotaStanding(request, name))
    )
  )

  const waiting: ((running: {
    request: FastifyRequest
    finish: (body: string) => void
    closed: Promise<unknown>
  }) => void)[] = []
  app.post(
    '/held',
    { config: { quota: mark } },
    async (request, reply) =>
      new Promise<string>((resolve) => {
        // The plugin listens already, so it has settled the request when this event has come.
        waiting.shift()?.({ request, finish: resolve, closed: once(reply.raw, 'close') })
      })
  )
  /**
   * Sends a request, and resolves when its handler runs, which lasts until `end`. That resolves
   * when the response has closed.
   */
  const begin = async (headers: Record<string, string> = {}) => {
    const running = new Promise<{
      request: FastifyRequest
      finish: (body: string) => void
      closed: Promise<unknown>
    }>((resolve) => {
          waiting.push(resolve)
        })
    const response = ask({ url: '/held', headers }).then(async (response) => response)
    const refused = response.then(({ body }): never => {
      throw new Error(`the handler has not run: ${body}`)
    })
    const { request, finish, closed } = await Promise.race([running, refused])
    refused.catch(() => {})
    const end = async (): Promise<number> => {
      finish('ran')
      const { statusCode } = await response
      await closed
      return statusCode
    }
    return { request, end }
  }
  return { app, clock, store, ask, statuses, standings, counts, begin }
}
