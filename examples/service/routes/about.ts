import type { FastifyInstance } from 'fastify'
import { quotaNames } from '../quotas.js'

const about = {
  service: 'Reads business texts with a language model, with a quota for each caller',
  page: 'GET /',
  authorization: 'Bearer token; get one with: npm run --silent token -- alice',
  operations: {
    'POST /api/analyze': { businessText: 'text' },
    'POST /api/justify-leaf': { businessText: 'text', leaf: 'term, or a code from the taxonomy' },
    'GET /api/analyze-node': { parentCode: 'a code from the taxonomy: BC, FIN, HR, SAL, LOG, IT', businessText: 'text' },
    'GET /api/analyze-stream': { businessText: 'text; answers with server-sent events' }
  },
  standing: { 'GET /api/quota': 'the caller\'s limits and what is left of them; not counted' },
  administration: {
    'GET /api/preferences': 'an administrator\'s token; get one with: npm run --silent token -- --admin root',
    'PUT /api/preferences': Object.fromEntries(Object.keys(quotaNames).map((key) => [key, 'integer, or null for the configured limit'])),
    'GET /api/callers': 'all callers\' windows',
    'DELETE /api/callers/{digest}': 'resets a caller'
  },
  health: 'GET /health',
  documentation: 'GET /documentation'
}

/** Routes that describe the service and report its health. */
export async function aboutTheService (app: FastifyInstance): Promise<void> {
  app.get('/about', { schema: { summary: 'Describe the service', tags: ['Service'] } }, async () => ({ ...about, model: app.model.description }))
  app.get('/health', { schema: { summary: 'Check the health of the service', tags: ['Service'] } }, async () => ({ status: 'ok' }))
}
