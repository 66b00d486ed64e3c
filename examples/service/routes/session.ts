import type { FastifyInstance } from 'fastify'
import { callerKey, type Authentication } from 'fastify-llm-quota'

/** Tells the page who uses it, and gives it the token that its requests prove themselves with. */
export async function session (app: FastifyInstance): Promise<void> {
  app.get('/api/session', { exposeHeadRoute: false, schema: { hide: true } }, async (request, reply) => {
    reply.header('cache-control', 'no-store')
    return {
      signedIn: request.signedIn,
      caller: request.signedIn === null ? null : callerKey(request.user as Authentication)?.slice(0, 8) ?? null,
      ways: { local: app.onLoopback, openId: app.openId !== null, developmentProvider: app.developmentProvider !== null },
      csrfToken: reply.generateCsrf()
    }
  })
}
