import { LogController, type FastifyError, type FastifyReply, type FastifyRequest } from 'fastify'

/**
 * The log serializers. A path, a query, a header or an error's message can contain a caller's text, token or password, so the log
 * contains only the pattern of a route, and the name, code and stack of an error.
 */
export const logSerializers = {
  req ({ method, routeOptions }: FastifyRequest) {
    return { method, route: routeOptions?.url ?? 'none' }
  },
  err (error: Error) {
    return { type: error.name, message: 'code' in error ? String(error.code) : error.name, stack: framesOf(error) }
  }
}

/** Writes Fastify's own log lines without data from the client. */
export class DiscreetLog extends LogController {
  override defaultErrorLog (error: FastifyError, _request: FastifyRequest, reply: FastifyReply): void {
    reply.log.info({ res: reply, err: error }, 'the request failed')
  }

  override routeNotFound (request: FastifyRequest): void {
    request.log.info('no route matches')
  }

  override writeHeadError (error: Error, _request: FastifyRequest, reply: FastifyReply): void {
    reply.log.warn({ err: error }, 'the headers of the response cannot be written')
  }
}

function framesOf ({ stack = '' }: Error): string {
  return stack.split('\n').filter((line) => /^ {4}at /.test(line)).join('\n')
}
