import type { FastifyInstance } from 'fastify'

const about = {
  service: 'Business texts, read by a language model, behind a quota',
  page: 'GET /',
  authorization: 'Bearer token; get one with: npm run --silent token -- alice',
  operations: {
    'POST /api/analyze': { businessText: 'text' },
    'POST /api/justify-leaf': { businessText: 'text', leaf: 'term, or a code of the taxonomy' },
    'GET /api/analyze-node': { parentCode: 'a code of the taxonomy: BC, FIN, HR, SAL, LOG, IT', businessText: 'text' },
    'GET /api/analyze-stream': { businessText: 'text; answers with server-sent events' }
  },
  administration: {
    'GET /api/preferences': 'an administrator\'s token; get one with: npm run --silent token -- --admin root',
    'PUT /api/preferences': { 'rate-limit.per-minute': 'integer, or null for the configured limit' }
  },
  health: 'GET /health',
  documentation: 'GET /documentation'
}

/** Says what there is and how to call it, and that the service is well. */
export async function aboutTheService (app: FastifyInstance): Promise<void> {
  app.get('/about', { schema: { summary: 'What there is, and how to call it', tags: ['Service'] } }, async () => about)
  app.get('/health', { schema: { summary: 'Whether the service is well', tags: ['Service'] } }, async () => ({ status: 'ok' }))
}
