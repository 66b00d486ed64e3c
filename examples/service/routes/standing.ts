import type { FastifyInstance } from 'fastify'
import { requireSignIn } from '../plugins/authentication.js'
import { quotaNames } from '../quotas.js'
import { ServiceError } from '../service-error.js'

const standing = {
  type: 'object',
  properties: {
    quota: { type: 'string' },
    unit: { type: 'string', description: 'What the quota counts: `requests`, `tokens` or `requests-in-flight`.' },
    limit: { type: 'integer', description: '0 if the quota is disabled.' },
    count: { type: 'integer', description: 'What the quota has counted in the window, or what is in flight.' },
    remaining: { type: ['integer', 'null'], description: 'What is left in the window; null if the quota is disabled.' },
    windowRemaining: { type: ['number', 'null'], description: 'Milliseconds until the window ends; null if no window is open, or if the quota counts requests in flight.' },
    overflow: { type: 'boolean', description: 'Whether the caller shares a counter with others.' }
  }
}

const standings = {
  description: 'The caller\'s limits, and what is left of them. This request is not counted.',
  type: 'object',
  properties: {
    quotas: { type: 'array', items: standing },
    rejected: { type: 'integer', description: 'The number of requests in the default quota\'s window that this instance rejected.' },
    marks: {
      description: 'The first requests in that window that this instance has seen.',
      type: 'array',
      items: { type: 'object', properties: { at: { type: 'number', description: 'Milliseconds since the start of the window.' }, admitted: { type: 'boolean' } } }
    }
  }
}

const failure = { type: 'object', properties: { error: { type: 'string' }, status: { type: 'integer' } } }

/** A route for callers to read their standing in each quota. */
export async function standingOfCaller (app: FastifyInstance): Promise<void> {
  app.addHook('onRequest', requireSignIn)
  const schema = { summary: 'Read your limits and what is left of them', tags: ['Standing'], security: [{ token: [] }], response: { 200: standings, 401: failure, 503: failure } }

  app.get('/api/quota', { exposeHeadRoute: false, schema }, async (request, reply) => {
    reply.header('cache-control', 'no-store')
    try {
      const found = await Promise.all(Object.values(quotaNames).map(async (name) => await app.quotaStanding(request, name)))
      const quotas = found.filter((standing) => standing !== null)
      return { quotas, ...app.windows.of(request.signedIn?.caller ?? '', quotas[0]) }
    } catch (cause) {
      throw new ServiceError(503, 'QUOTA_UNAVAILABLE', 'The quota cannot be read. Please try again.', { retryAfter: 1, cause })
    }
  })
}
