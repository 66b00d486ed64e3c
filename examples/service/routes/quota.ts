import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox'
import { callerKey, type CallerCount, type QuotaInfo } from 'fastify-llm-quota'
import { authenticationOf, requireAdministrator, requireUser } from '../plugins/authentication.js'
import { limitKeys } from '../plugins/quota.js'
import type { Preferences } from '../plugins/shared.js'

const limit = Type.Union(
  [
    Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
    Type.Null()
  ],
  {
    description:
      '0 disables the quota, a negative number counts as 1, null is the configured limit.'
  }
)
const properties = Object.fromEntries(limitKeys.map((key) => [key, Type.Optional(limit)]))
const body = Type.Object(properties, { minProperties: 1, additionalProperties: false })
const params = Type.Object({
  digest: Type.String({ pattern: '^[0-9a-f]{64}$', description: 'The digest of the caller.' })
})
const described = (summary: string) => ({ summary, tags: ['Quota'], security: [{ token: [] }] })
const mostShown = 50

/** What is counted for a caller in each quota in which it has an open window. */
interface Caller {
  readonly callerKey: string
  readonly quotas: Record<string, Omit<CallerCount, 'callerKey'>>
}

/**
 * Routes for callers to read where they stand, and for administrators to change the limits, to list
 * the callers and to reset one.
 */
const quota: FastifyPluginAsyncTypebox = async function quota (app) {
  const preferences = app.getDecorator<Preferences>('preferences')
  app.get(
    '/api/quota',
    { onRequest: requireUser, schema: described('Read what is left of your limits') },
    async (request, reply) => {
      reply.header('cache-control', 'no-store')
      const standings = await Promise.all(
        app.quotas.map(({ name }) => app.quotaStanding(request, name))
      )
      const authentication = authenticationOf(request)
      return {
        caller: authentication && callerKey(authentication),
        waiting: app.waitingOf(request),
        quotas: standings.filter((standing) => standing !== null)
      }
    }
  )

  app.get(
    '/api/preferences',
    { onRequest: requireAdministrator, schema: described('Read the limits') },
    async () =>
      Object.fromEntries(
        await Promise.all(limitKeys.map(async (key) => [key, (await preferences.get(key)) ?? null]))
      )
  )

  app.put(
    '/api/preferences',
    { onRequest: requireAdministrator, schema: { ...described('Change limits'), body } },
    async ({ body }) => {
      for (const [key, value] of Object.entries(body)) {
        if (value !== undefined) await preferences.change(key, value)
      }
      return body
    }
  )

  app.get(
    '/api/callers',
    { onRequest: requireAdministrator, schema: described('List callers with an open window') },
    async () => {
      const [first] = app.quotas
      if (first === undefined) throw new Error('the service has no quota')
      const callers = new Map<string, Caller>()
      for (const quota of app.quotas) {
        for (const { callerKey, ...counted } of await callersOf(quota)) {
          const caller = callers.get(callerKey) ?? { callerKey, quotas: {} }
          caller.quotas[quota.name] = counted
          callers.set(callerKey, caller)
        }
      }
      const { trackedCallers = callers.size } = (await first.store.inspect?.(first.counters)) ?? {}
      const countOf = ({ quotas }: Caller) => quotas[first.name]?.count ?? 0
      return {
        trackedCallers,
        callers: [...callers.values()]
          .sort((one, other) => countOf(other) - countOf(one))
          .slice(0, mostShown)
      }
    }
  )

  const reset = { ...described('Reset a caller'), params }
  app.delete(
    '/api/callers/:digest',
    { onRequest: requireAdministrator, schema: reset },
    async ({ params }, reply) => {
      await app.quotaForget(params.digest)
      return reply.code(204).send()
    }
  )
}

async function callersOf ({ store, counters }: QuotaInfo): Promise<CallerCount[]> {
  if (store.list === undefined) throw new Error('the store cannot list callers')
  const callers: CallerCount[] = []
  let cursor: string | null | undefined
  while (cursor !== null && callers.length < mostShown) {
    const page = await store.list(counters, cursor)
    callers.push(...page.callers)
    cursor = page.cursor
  }
  return callers
}

export default quota
