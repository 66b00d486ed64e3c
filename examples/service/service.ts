import { fastifySSE } from '@fastify/sse'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import authentication from './plugins/authentication.js'
import documentation from './plugins/documentation.js'
import environment from './plugins/environment.js'
import errors from './plugins/errors.js'
import metrics from './plugins/metrics.js'
import model from './plugins/model.js'
import quota from './plugins/quota.js'
import shared, { type Clock } from './plugins/shared.js'
import operations from './routes/operations.js'
import page from './routes/page.js'
import quotaRoutes from './routes/quota.js'
import signIn from './routes/sign-in.js'

// A URL can contain a caller's text, so the log holds the route's pattern instead.
const serializers = {
  req: ({ method, routeOptions }: FastifyRequest) => ({ method, route: routeOptions.url })
}

/** Creates the service, which is ready to listen. Tests give it a log and a clock. */
export async function createService ({
  log,
  ...clock
}: Clock & { log?: NodeJS.WritableStream } = {}): Promise<FastifyInstance> {
  const app = Fastify({
    logger: { serializers, ...(log && { stream: log }) },
    // Input of another shape is answered with 400 instead of being converted or removed.
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false } },
    // A HEAD route would run the handler of its GET route without being subject to the quota.
    exposeHeadRoutes: false,
    forceCloseConnections: true
  })
  for (const plugin of [environment, errors, authentication, fastifySSE, metrics, documentation]) {
    await app.register(plugin)
  }
  await app.register(shared, clock)
  for (const plugin of [quota, model, operations, quotaRoutes, signIn, page]) {
    await app.register(plugin)
  }
  return app
}
