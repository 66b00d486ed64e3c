import type { FastifyInstance } from 'fastify'
import { requireAdministrator } from '../plugins/tokens.js'

const perMinute = 'rate-limit.per-minute'

const preference = {
  type: 'object',
  properties: { [perMinute]: { type: ['integer', 'null'] } },
  required: [perMinute],
  additionalProperties: false
}

/** Lets an administrator read and change the limit at run time; null means the configured property. */
export async function preferences (app: FastifyInstance): Promise<void> {
  const values = new Map<string, unknown>()
  app.decorate('preferences', values)

  app.get('/api/preferences', { onRequest: requireAdministrator }, async () => ({ [perMinute]: values.get(perMinute) ?? null }))

  app.put<{ Body: Record<typeof perMinute, number | null> }>('/api/preferences', { onRequest: requireAdministrator, schema: { body: preference } },
    async ({ body }) => {
      values.set(perMinute, body[perMinute])
      return { [perMinute]: body[perMinute] }
    })
}
