import { fastifySSE } from '@fastify/sse'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import quotaPlugin from 'fastify-llm-quota'
import { authentication } from './plugins/authentication.js'
import { configuration } from './plugins/configuration.js'
import { developmentProvider } from './plugins/development-provider.js'
import { documentation } from './plugins/documentation.js'
import { metrics } from './plugins/metrics.js'
import { observation } from './plugins/observation.js'
import { openId } from './plugins/openid.js'
import { sessions } from './plugins/sessions.js'
import { shared } from './plugins/shared.js'
import { ownTokens, tokens } from './plugins/tokens.js'
import { aboutTheService } from './routes/about.js'
import { operations } from './routes/operations.js'
import { page } from './routes/page.js'
import { preferences } from './routes/preferences.js'
import { session } from './routes/session.js'
import { signIn } from './routes/sign-in.js'
import { watching } from './routes/watching.js'

/** What the service can be given by the program that runs it. */
export interface ServiceSettings {
  /** Where the log goes, when not to standard output. */
  readonly log?: NodeJS.WritableStream
  /** The clock of the counters, in monotonic milliseconds. */
  readonly clock?: () => number
}

/** The service, ready to listen. */
export async function createService ({ log, clock }: ServiceSettings = {}): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify({ logger: { ...(log && { stream: log }), serializers: { req: loggedRequest } }, forceCloseConnections: true })
  await app.register(configuration)
  await app.register(developmentProvider)
  await app.register(ownTokens)
  await app.register(tokens)
  await app.register(sessions)
  await app.register(authentication)
  await app.register(openId)
  await app.register(fastifySSE)
  await app.register(metrics)
  await app.register(documentation)
  await app.register(shared, clock === undefined ? {} : { clock })
  await app.register(observation, clock === undefined ? {} : { clock })
  await app.register(quotaPlugin)
  await app.register(preferences)
  await app.register(operations)
  await app.register(page)
  await app.register(session)
  await app.register(signIn)
  await app.register(watching)
  await app.register(aboutTheService)
  return app
}

// Neither the query, which holds a caller's text or a sign-in's code, nor an address, nor a header belongs in the log.
function loggedRequest ({ method, url }: FastifyRequest) {
  return { method, path: url.split('?', 1)[0] }
}
