import type { FastifyInstance } from 'fastify'
import { requireAdministrator } from '../plugins/authentication.js'
import { perMinute } from '../plugins/observation.js'

const preference = {
  type: 'object',
  properties: { [perMinute]: { type: ['integer', 'null'] } },
  required: [perMinute],
  additionalProperties: false
}

/** Lets an administrator read and change the limit at run time; null means the configured property. */
export async function preferences (app: FastifyInstance): Promise<void> {
  app.get('/api/preferences', { onRequest: requireAdministrator, schema: { summary: 'Read the limit', tags: ['Administration'], security: [{ token: [] }] } }, async (request) => {
    const value: unknown = await app.preferences?.get(perMinute, request)
    return { [perMinute]: value == null ? null : Number(value) }
  })

  app.put<{ Body: Record<typeof perMinute, number | null> }>('/api/preferences', { onRequest: requireAdministrator, schema: { summary: 'Change the limit', tags: ['Administration'], security: [{ token: [] }], body: preference } },
    async ({ body }) => {
      await app.changePreference(perMinute, body[perMinute])
      app.observation.changed()
      return { [perMinute]: body[perMinute] }
    })
}
