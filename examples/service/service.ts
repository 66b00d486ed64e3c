import { fastifySSE } from '@fastify/sse'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import quotaPlugin from 'fastify-llm-quota'
import { configuration } from './plugins/configuration.js'
import { documentation } from './plugins/documentation.js'
import { metrics } from './plugins/metrics.js'
import { shared } from './plugins/shared.js'
import { tokens } from './plugins/tokens.js'
import { aboutTheService } from './routes/about.js'
import { operations } from './routes/operations.js'
import { preferences } from './routes/preferences.js'

/** The service, ready to listen. */
export async function createService (log: { level?: string, stream?: NodeJS.WritableStream } = {}): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify({ logger: { ...log, serializers: { req: loggedRequest } }, forceCloseConnections: true })
  await app.register(configuration)
  await app.register(tokens)
  await app.register(fastifySSE)
  await app.register(metrics)
  await app.register(documentation)
  await app.register(shared)
  await app.register(quotaPlugin)
  await app.register(preferences)
  await app.register(operations)
  await app.register(aboutTheService)
  return app
}

// Neither the query, which holds a caller's text, nor an address, nor a header belongs in the log.
function loggedRequest ({ method, url }: FastifyRequest) {
  return { method, path: url.split('?', 1)[0] }
}
