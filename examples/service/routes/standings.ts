import type { FastifyInstance } from 'fastify'
import type { QuotaStanding } from 'fastify-llm-quota'
import { requireAdministrator, requireSignIn } from '../plugins/authentication.js'
import { ServiceError } from '../service-error.js'

const standing = {
  description: 'The caller\'s limit and remaining requests. This request is not counted.',
  type: 'object',
  properties: {
    quota: { type: 'string' },
    limit: { type: 'integer', description: 'The limit, in requests per minute; 0 if the quota is disabled.' },
    count: { type: 'integer', description: 'The number of requests admitted in the window.' },
    remaining: { type: ['integer', 'null'], description: 'The number of requests that are left in the window; null if the quota is disabled.' },
    windowRemaining: { type: ['number', 'null'], description: 'Milliseconds until the window ends; null if no window is open.' },
    overflow: { type: 'boolean', description: 'Whether the caller shares a counter with others.' }
  }
}

const failure = { type: 'object', properties: { error: { type: 'string' }, status: { type: 'integer' } } }
const digest = { type: 'string', pattern: '^[0-9a-f]{64}$', description: 'The digest of the caller.' }

/** Routes for callers to read their remaining requests, and for administrators to reset a caller. */
export async function standings (app: FastifyInstance): Promise<void> {
  app.get('/api/quota', { exposeHeadRoute: false, onRequest: requireSignIn, schema: { summary: 'Read your limit and remaining requests', tags: ['Watching'], security: [{ token: [] }], response: { 200: standing, 401: failure, 503: failure } } },
    async (request, reply): Promise<QuotaStanding | null> => {
      reply.header('cache-control', 'no-store')
      try {
        return await app.quotaStanding(request)
      } catch (cause) {
        throw new ServiceError(503, 'QUOTA_UNAVAILABLE', 'The quota cannot be read. Please try again.', { retryAfter: 1, cause })
      }
    })

  app.delete<{ Params: { digest: string } }>('/api/callers/:digest', { onRequest: requireAdministrator, schema: { summary: 'Reset a caller', tags: ['Administration'], security: [{ token: [] }], params: { type: 'object', properties: { digest } } } },
    async ({ params }, reply) => {
      try {
        await app.quotaStore.forget(params.digest)
      } catch (cause) {
        throw new ServiceError(503, 'CALLER_NOT_FORGOTTEN', 'The store did not confirm that the caller was reset. Please try again.', { retryAfter: 1, cause })
      }
      app.observation.windows.forget(params.digest)
      app.observation.changed()
      return reply.code(204).send()
    })
}
