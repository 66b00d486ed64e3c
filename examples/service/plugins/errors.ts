import type { FastifyError, FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { ServiceError } from '../service-error.js'

/** Answers errors, and requests to unknown routes. */
export const errors = createPlugin(async function errors (app: FastifyInstance) {
  app.setErrorHandler<FastifyError>(async (error, request, reply) => {
    if (error instanceof ServiceError) {
      const { statusCode: status, message, retryAfter, cause } = error
      if (cause !== undefined) request.log.error({ err: cause, code: error.code }, message)
      else request.log[status >= 500 ? 'warn' : 'info']({ code: error.code }, message)
      if (retryAfter !== undefined) reply.header('retry-after', retryAfter)
      return reply.code(status).header('cache-control', 'no-store').send({ error: message, status })
    }
    // Fastify's own handler logs and answers all other errors. For internal errors, the client must not get the message.
    if ((error.statusCode ?? 500) >= 500) {
      request.log.error({ err: error }, 'the service failed')
      return reply.code(500).header('cache-control', 'no-store').send({ error: 'The service failed. Please try again.', status: 500 })
    }
    throw error
  })

  app.setNotFoundHandler(async () => { throw new ServiceError(404, 'NOT_FOUND', 'Not found. GET /about describes the service.') })
}, { name: 'errors' })
