import type { FastifyInstance, FastifyRequest } from 'fastify'
import { requireAdministrator } from '../plugins/authentication.js'
import { quotaNames } from '../quotas.js'
import { ServiceError } from '../service-error.js'

const limit = { type: ['integer', 'null'], minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER, description: '0 disables the quota, a negative number counts as 1, null is the configured limit.' }
const limits = { type: 'object', properties: Object.fromEntries(Object.keys(quotaNames).map((key) => [key, limit])), minProperties: 1, additionalProperties: false }
const digest = { type: 'string', pattern: '^[0-9a-f]{64}$', description: 'The digest of the caller.' }
const described = { tags: ['Administration'], security: [{ token: [] }] }
const mostShown = 50
const minute = 60_000

/** Routes for administrators to read and change the limits, to read all callers' windows, and to reset a caller. */
export async function administration (app: FastifyInstance): Promise<void> {
  app.addHook('onRequest', requireAdministrator)

  app.get('/api/preferences', { schema: { summary: 'Read the limits', ...described } }, async (request) =>
    Object.fromEntries(await Promise.all(Object.keys(quotaNames).map(async (key) => [key, await preference(key, request)]))))

  app.put<{ Body: Record<string, number | null> }>('/api/preferences', { schema: { summary: 'Change limits', ...described, body: limits } },
    async ({ body }) => {
      for (const [key, value] of Object.entries(body)) await app.changePreference(key, value)
      return body
    })

  app.get('/api/callers', { schema: { summary: 'Read all callers\' windows', ...described } }, async (request) => {
    const callers = app.windows.all()
    return {
      limits: Object.fromEntries(await Promise.all(Object.entries(quotaNames).map(async ([key, name]) => [key, {
        effective: (await app.quotaStanding(request, name))?.limit,
        preference: await preference(key, request).catch(() => undefined)
      }]))),
      trackedCallers: await trackedCallers(),
      callers: callers.slice(0, mostShown).map(({ marks, ...counts }) => counts),
      more: Math.max(0, callers.length - mostShown),
      overflow: app.windows.overflow()
    }
  })

  app.delete<{ Params: { digest: string } }>('/api/callers/:digest', { schema: { summary: 'Reset a caller', ...described, params: { type: 'object', properties: { digest } } } },
    async ({ params }, reply) => {
      try {
        await app.quotaStore.forget?.(params.digest)
        await app.quotaStore.quota?.('tokens', minute).forget?.(params.digest)
      } catch (cause) {
        throw new ServiceError(503, 'CALLER_NOT_FORGOTTEN', 'The store did not confirm that the caller was reset. Please try again.', { retryAfter: 1, cause })
      }
      app.windows.forget(params.digest)
      return reply.code(204).send()
    })

  // Null if the store does not answer.
  async function trackedCallers (): Promise<number | null> {
    try {
      return (await app.quotaStore.inspect?.())?.trackedCallers ?? null
    } catch {
      return null
    }
  }

  // The value as it is stored. Only the quota plugin interprets it.
  async function preference (key: string, request: FastifyRequest): Promise<unknown> {
    return await app.preferences.get(key, request) ?? null
  }
}
