import type { FastifyReply, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { EmbeddedModel } from '../model/embedded.js'
import type { Call, Model } from '../model/model.js'
import { RemoteModel } from '../model/remote.js'

declare module 'fastify' {
  interface FastifyInstance {
    model: Model
  }
}

/** Provides the model for the operations: the one at `MODEL_URL`, or the embedded one. */
export default createPlugin(
  async function model (app) {
    const { MODEL_URL: url, MODEL_NAME: name = '', MODEL_KEY: key } = app.config
    app.decorate<Model>(
      'model',
      url === undefined ? new EmbeddedModel() : new RemoteModel(url, name, key)
    )
    app.addHook('onClose', async () => {
      await app.model.close()
    })
  },
  { name: 'model', dependencies: ['environment'] }
)

/** Returns a call of the model for a request. Its usage is charged to the caller. */
export function callOf (request: FastifyRequest, reply: FastifyReply): Call {
  const {
    server,
    raw: { socket }
  } = request
  // `request.signal` cannot be used, because it is aborted as soon as the body has been read.
  const gone = new AbortController()
  reply.raw.once('close', () => {
    gone.abort()
  })
  if (socket.destroyed) gone.abort()
  return {
    signal: AbortSignal.any([gone.signal, AbortSignal.timeout(server.config.MODEL_TIMEOUT)]),
    chargeUsage: (usage) => request.quota.chargeUsage(usage)
  }
}
