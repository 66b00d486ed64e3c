import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { ServiceError } from '../service-error.js'

/** Event streams that stay open while a client reads them. */
interface Streams {
  /**
   * Keeps the stream of a reply open until the client disconnects, the session or token ends, or 15 minutes have passed. A browser then
   * connects and authenticates again.
   *
   * @throws ServiceError 429 if the caller has too many open streams.
   */
  keepOpen (request: FastifyRequest, reply: FastifyReply): void
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

  app.decorate('streams', {
    keepOpen (request, reply) {
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
    },

    endSession (id) {
      for (const end of [...ofSessions.get(id) ?? []]) end()
    }
  })
}, { name: 'streams', dependencies: ['authentication'] })
