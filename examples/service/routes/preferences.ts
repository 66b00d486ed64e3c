import type { FastifyInstance } from 'fastify'
import { requireAdministrator } from '../plugins/authentication.js'
import { perMinute } from '../plugins/observation.js'

const preference = {
  type: 'object',
  properties: { [perMinute]: { type: ['integer', 'null'], minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER, description: 'Requests per minute; 0 disables the quota, a negative number counts as 1, null is the configured limit.' } },
  required: [perMinute],
  additionalProperties: false
}

/** Routes for administrators to read and change the limit. Null stands for the configured limit. */
export async function preferences (app: FastifyInstance): Promise<void> {
  app.get('/api/preferences', { onRequest: requireAdministrator, schema: { summary: 'Read the limit', tags: ['Administration'], security: [{ token: [] }] } }, async (request) => {
    const value: unknown = await app.preferences.get(perMinute, request)
    return { [perMinute]: value == null ? null : Number(value) }
  })

  app.put<{ Body: Record<typeof perMinute, number | null> }>('/api/preferences', { onRequest: requireAdministrator, schema: { summary: 'Change the limit', tags: ['Administration'], security: [{ token: [] }], body: preference } },
    async ({ body }) => {
      await app.changePreference(perMinute, body[perMinute])
      app.observation.changed()
      return { [perMinute]: body[perMinute] }
    })
}
