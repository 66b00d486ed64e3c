import { availableParallelism } from 'node:os'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { BoundedModel, type Call } from '../model/bounded-model.js'
import { EmbeddedModel } from '../model/embedded/embedded-model.js'
import { RemoteModel } from '../model/remote/remote-model.js'

declare module 'fastify' {
  interface FastifyInstance {
    model: BoundedModel
  }
}

// Leaves one core for requests, but uses at least two threads, so that one long text does not block all others.
const threads = Math.max(2, Math.min(4, availableParallelism() - 1))
// The server has its own queue. This limits the number of open requests.
const requestsAtOnce = 16

/** Provides the model for the operations: the one at `MODEL_URL`, or the embedded one. */
export const model = createPlugin(async function model (app: FastifyInstance) {
  const { MODEL_URL: url, MODEL_NAME: name, MODEL_KEY: key, MODEL_QUEUE: waiting, MODEL_TIMEOUT: timeLimit } = app.config
  const atOnce = url === '' ? threads : requestsAtOnce
  app.decorate('model', new BoundedModel(url === '' ? new EmbeddedModel(threads) : new RemoteModel({ url, name, key }), { atOnce, waiting, timeLimit }))
  app.addHook('onClose', async () => { await app.model.close() })
}, { name: 'model', dependencies: ['configuration'] })

/** Returns the caller of a request, a signal that is aborted when the client disconnects, and a function that charges the caller's tokens. */
export function callOf (request: FastifyRequest, reply: FastifyReply): Call {
  const gone = new AbortController()
  // `request.signal` cannot be used, because it is aborted as soon as the body has been read.
  reply.raw.once('close', () => { gone.abort() })
  if (request.raw.socket.destroyed) gone.abort()
  return {
    caller: request.signedIn?.caller ?? '',
    gone: gone.signal,
    charge (tokens) { request.server.quotaCharge(request, tokens).catch((error: unknown) => { request.log.error({ err: error }, 'the tokens could not be charged') }) }
  }
}
