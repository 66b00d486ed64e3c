import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { requireAdministrator, requireSignIn } from '../plugins/authentication.js'

const mostShown = 50

/** Server-sent events for users about their own window, and for administrators about all windows. */
export async function watching (app: FastifyInstance): Promise<void> {
  const events = { exposeHeadRoute: false, sse: { kind: 'only', heartbeat: true } } as const

  app.get('/api/window', { ...events, onRequest: requireSignIn, schema: { summary: 'Watch your own window', tags: ['Watching'], security: [{ token: [] }] } }, async (request, reply) => {
    const key = request.signedIn?.caller ?? ''
    await watch(request, reply, {
      revision: async () => `${await app.observation.limit(request)} ${app.observation.windows.revisionOf(key)}`,
      async state () {
        const standing = await app.quotaStanding(request)
        return { standing, window: standing === null ? null : app.observation.windows.of(key, standing) }
      }
    })
  })

  app.get('/api/callers', { ...events, onRequest: requireAdministrator, schema: { summary: 'Watch all callers\' windows', tags: ['Administration'], security: [{ token: [] }] } }, async (request, reply) => {
    await watch(request, reply, {
      async state () {
        const callers = app.observation.windows.all()
        return {
          limit: await app.observation.limit(request),
          trackedCallers: await app.observation.trackedCallers(),
          callers: callers.slice(0, mostShown).map(({ marks, ...counts }) => counts),
          more: Math.max(0, callers.length - mostShown),
          overflow: app.observation.windows.overflow()
        }
      }
    })
  })

  // Sends the complete state now and after each change, so a client that connects late or misses an event has the same state.
  async function watch (request: FastifyRequest, reply: FastifyReply, { revision, state }: { revision?: () => Promise<string>, state: () => Promise<object> }): Promise<void> {
    let shown: string | undefined
    const show = async (): Promise<void> => {
      if (request.raw.destroyed || reply.raw.writableNeedDrain) return
      // Skips the call of the store if only another caller's state has changed.
      const current = await revision?.()
      if (current !== undefined && current === shown) return
      shown = current
      await reply.sse.send({ event: 'state', data: await state() })
    }
    app.streams.keepOpen(request, reply)
    const stop = app.observation.onChange(() => { show().catch((error: unknown) => { request.log.debug({ err: error }, 'the client of an event stream has disconnected') }) })
    reply.sse.onClose(stop)
    await show()
  }
}
