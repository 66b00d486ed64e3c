import Fastify, { type FastifyInstance, type FastifyServerOptions, type InjectOptions } from 'fastify'
import quotaPlugin, { localAuthentication, MemoryQuotaStore, type AuthenticationReader, type QuotaOptions, type RouteMark } from '../../lib/index.js'
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

/** A service in virtual time whose only route, `POST /marked`, belongs to the quotas of a mark and returns its decisions. */
export async function createHost (mark: RouteMark, options: QuotaOptions = {}, server: FastifyServerOptions = {}) {
  const clock = new VirtualClock()
  const app: FastifyInstance = Fastify(server)
  await app.register(quotaPlugin, { operations: [], authentication: fromHeader, store: new MemoryQuotaStore({ clock: clock.now }), ...options })
  app.post('/marked', { config: { quota: mark } }, async ({ quotaDecisions }) => quotaDecisions)
  const ask = (request: InjectOptions = {}) => app.inject({ method: 'POST', url: '/marked', ...request })
  /** Returns the statuses of several requests of a caller, one after another. */
  const statuses = async (count: number, headers: Record<string, string> = {}): Promise<number[]> => {
    const received = []
    for (let request = 0; request < count; request++) received.push((await ask({ headers })).statusCode)
    return received
  }
  /** Returns what is counted in each of these quotas for a caller. */
  const counts = async (names: readonly string[], headers: Record<string, string> = {}): Promise<unknown[]> => {
    const { json } = await app.inject({ url: '/standings', headers, query: { names: names.join() } })
    return json()
  }
  app.get<{ Querystring: { names: string } }>('/standings', async (request) => Promise.all(request.query.names.split(',').map(async (name) => (await app.quotaStanding(request, name))?.count)))
  return { app, clock, ask, statuses, counts }
}
