import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { callerKey, type Authentication } from 'fastify-llm-quota'
import { requireAdministrator, requireSignIn } from '../plugins/authentication.js'

const mostShown = 50

/** Tells people of their own window as it changes, and administrators of everybody's, by server-sent events. */
export async function watching (app: FastifyInstance): Promise<void> {
  const events = { exposeHeadRoute: false, sse: { kind: 'only', heartbeat: true } } as const

  app.get('/api/window', { ...events, onRequest: requireSignIn, schema: { summary: 'Watch one\'s own window', tags: ['Watching'], security: [{ token: [] }] } }, async (request, reply) => {
    const key = callerKey(request.user as Authentication)
    await watch(request, reply, async () => ({
      limit: await app.observation.limit(request),
      window: key === null ? null : app.observation.windows.of(key) ?? app.observation.windows.overflow()
    }))
  })

  app.get('/api/callers', { ...events, onRequest: requireAdministrator, schema: { summary: 'Watch all callers\' windows', tags: ['Administration'], security: [{ token: [] }] } }, async (request, reply) => {
    await watch(request, reply, async () => {
      const callers = app.observation.windows.all()
      return {
        limit: await app.observation.limit(request),
        trackedCallers: await trackedCallers(app),
        callers: callers.slice(0, mostShown).map(({ marks, ...counts }) => counts),
        more: Math.max(0, callers.length - mostShown),
        overflow: app.observation.windows.overflow()
      }
    })
  })

  // The state as it is, now and after each change: whoever comes late or misses one sees the same as everybody.
  async function watch (request: FastifyRequest, reply: FastifyReply, state: () => Promise<object>): Promise<void> {
    const show = async (): Promise<void> => {
      if (!request.raw.destroyed && !reply.raw.writableNeedDrain) await reply.sse.send({ event: 'state', data: await state() })
    }
    reply.sse.keepAlive()
    const stop = app.observation.onChange(() => { show().catch((error: unknown) => { request.log.debug({ err: error }, 'a watcher has gone') }) })
    reply.sse.onClose(stop)
    await show()
  }
}

async function trackedCallers (app: FastifyInstance): Promise<number | null> {
  try {
    return (await app.quotaStore.inspect()).trackedCallers
  } catch {
    return null
  }
}
