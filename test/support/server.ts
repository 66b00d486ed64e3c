import { once } from 'node:events'
import Fastify, {
  type FastifyInstance,
  type FastifyRequest,
  type FastifyServerOptions,
  type InjectOptions,
  type RouteHandlerMethod
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
import { captureLog } from './log.js'

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

/** An authentication as alice. */
export const asAlice = () => localAuthentication('alice')

/** The headers of a request without a caller. */
export const nobody = { 'x-caller': '' }

/** The options of the plugin, and what else a host has. */
export interface ServerOptions extends QuotaOptions {
  /** The quotas of the routes. Default: all named ones, or the default quota without any. */
  readonly mark?: RouteMark
  /** Handles `POST /run`. Default: returns the decisions. */
  readonly handler?: RouteHandlerMethod
  /** Options of Fastify. */
  readonly fastify?: FastifyServerOptions
  /** The lowest level of the log that is captured. */
  readonly logged?: string
  /** Runs before the plugin is registered. */
  readonly before?: (app: FastifyInstance) => unknown
}

/** A request whose handler runs. */
interface Running {
  readonly request: FastifyRequest
  readonly finish: (body: string) => void
  readonly closed: Promise<unknown>
}

/**
 * Creates a server whose routes `POST /run` and `POST /held` belong to its quotas. Its callers are
 * named by the header `x-caller`, and its store counts in virtual time.
 */
export async function createServer (options: ServerOptions = {}) {
  const { mark, handler, fastify, logged = 'warn', before, ...ofPlugin } = options
  const clock = new VirtualClock()
  const store = new MemoryQuotaStore({ clock: clock.now })
  const log = captureLog(logged)
  const app: FastifyInstance = Fastify({ logger: log.logger, ...fastify })
  await before?.(app)
  await app.register(quotaPlugin, {
    operations: [],
    authentication: fromHeader,
    store,
    ...ofPlugin
  })
  const names = Object.keys(options.quotas ?? {})
  const config = { quota: mark ?? (names.length === 0 ? 'default' : names) }
  app.post('/run', { config }, handler ?? (async ({ quota }) => quota.decisions))

  /** Sends a request, by default to `POST /run` as alice. */
  const ask = (request: InjectOptions = {}) =>
    app.inject({ method: 'POST', url: '/run', ...request })

  /** Returns the statuses of several requests, one after another. */
  const statuses = async (count: number, headers: Headers = {}): Promise<number[]> => {
    const received = []
    for (let request = 0; request < count; request++) {
      received.push((await ask({ headers })).statusCode)
    }
    return received
  }

  app.get<{ Querystring: { names: string } }>('/standings', async (request) =>
    Promise.all(
      request.query.names.split(',').map(async (name) => app.quotaStanding(request, name))
    )
  )
  /** Returns where a caller stands in each of these quotas; null where nobody is named. */
  const standings = async (
    names: readonly string[],
    headers: Headers = {}
  ): Promise<(QuotaStanding | null)[]> => {
    const url = `/standings?names=${names.join()}`
    return (await app.inject({ url, headers })).json()
  }
  /** Returns what is counted in each of these quotas for a caller. */
  const counts = async (names: readonly string[], headers: Headers = {}): Promise<unknown[]> =>
    (await standings(names, headers)).map((standing) => standing?.count)

  const waiting: ((running: Running) => void)[] = []
  app.post('/held', { config }, async (request, reply) =>
    new Promise<string>((resolve) => {
      // The plugin listens already, so it has settled the request when this event has come.
      waiting.shift()?.({ request, finish: resolve, closed: once(reply.raw, 'close') })
    })
  )
  /**
   * Sends a request, and resolves when its handler runs, which lasts until `end`. That resolves
   * when the response has closed.
   */
  const begin = async (headers: Headers = {}) => {
    const running = new Promise<Running>((resolve) => {
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

  return { app, clock, store, log, ask, statuses, standings, counts, begin }
}

type Headers = Readonly<Record<string, string>>
