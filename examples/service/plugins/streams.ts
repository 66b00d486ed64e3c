import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { ServiceError } from '../service-error.js'

/** Event streams that stay open while a client reads them. */
interface Streams {
  /**
   * Sends the state now and after each change that concerns a caller, or any caller if none is given. It is always the complete state, so
   * a client that connects late or misses an event has the same state. The stream ends when the client disconnects, the session or token
   * ends, or 15 minutes have passed. A browser then connects and authenticates again.
   *
   * @throws ServiceError 429 if the caller has too many open streams.
   */
  watch (request: FastifyRequest, reply: FastifyReply, state: () => Promise<object>, callerKey?: string): Promise<void>
  /** Ends the streams of a session. */
  endSession (id: string): void
}

declare module 'fastify' {
  interface FastifyInstance {
    streams: Streams
  }
}

const mostOfACaller = 6
const longest = 15 * 60_000

export const streams = createPlugin(async function streams (app: FastifyInstance) {
  const ofCallers = new Map<string, number>()
  const ofSessions = new Map<string, Set<() => void>>()

  function keepOpen (request: FastifyRequest, reply: FastifyReply): void {
    const { signedIn } = request
    const caller = signedIn?.caller ?? ''
    const open = ofCallers.get(caller) ?? 0
    if (signedIn === null || open >= mostOfACaller) {
      throw new ServiceError(429, 'TOO_MANY_STREAMS', `You already have ${mostOfACaller} open streams. Close another page of this service first.`, { retryAfter: 5 })
    }
    ofCallers.set(caller, open + 1)
    reply.sse.keepAlive()
    const end = (): void => { reply.sse.close() }
    const timer = setTimeout(end, Math.max(0, Math.min(longest, signedIn.endsAt - Date.now()))).unref()
    const { session } = signedIn
    const ends = ofSessions.get(session) ?? new Set()
    if (session !== '') ofSessions.set(session, ends.add(end))
    reply.sse.onClose(() => {
      clearTimeout(timer)
      const left = (ofCallers.get(caller) ?? 1) - 1
      if (left === 0) ofCallers.delete(caller)
      else ofCallers.set(caller, left)
      if (ends.delete(end) && ends.size === 0) ofSessions.delete(session)
    })
  }

  app.decorate('streams', {
    async watch (request, reply, state, callerKey) {
      const show = async (): Promise<void> => {
        if (!request.raw.destroyed && !reply.raw.writableNeedDrain) await reply.sse.send({ event: 'state', data: await state() })
      }
      keepOpen(request, reply)
      const stop = app.observation.onChange(() => { show().catch((error: unknown) => { request.log.debug({ err: error }, 'the client of an event stream has disconnected') }) }, callerKey)
      reply.sse.onClose(stop)
      await show()
    },

    endSession (id) {
      for (const end of [...ofSessions.get(id) ?? []]) end()
    }
  })
}, { name: 'streams', dependencies: ['authentication', 'observation'] })
