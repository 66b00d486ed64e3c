import type { FastifyInstance, FastifyRequest } from 'fastify'

/** Returns the current user to the page, and the CSRF token for its requests. */
export async function session (app: FastifyInstance): Promise<void> {
  app.get('/api/session', { exposeHeadRoute: false, schema: { hide: true } }, async (request, reply) => {
    reply.header('cache-control', 'no-store')
    return {
      signedIn: signedInAs(request),
      limit: await app.observation.limit(request),
      caller: request.signedIn?.caller?.slice(0, 8) ?? null,
      ways: { local: app.onLoopback, openId: app.openId !== null, developmentProvider: app.developmentProvider !== null },
      csrfToken: reply.generateCsrf()
    }
  })
}

function signedInAs ({ signedIn }: FastifyRequest) {
  if (signedIn === null) return null
  const { by, name, administrator } = signedIn
  return { by, name, administrator }
}
