import { fastifySSE } from '@fastify/sse'
import Fastify, { type FastifyInstance } from 'fastify'
import quotaPlugin from 'fastify-llm-quota'
import { DiscreetLog, logSerializers } from './log.js'
import { authentication } from './plugins/authentication.js'
import { configuration, namesOf } from './plugins/configuration.js'
import { developmentProvider } from './plugins/development-provider.js'
import { documentation } from './plugins/documentation.js'
import { errors } from './plugins/errors.js'
import { hosts } from './plugins/hosts.js'
import { metrics } from './plugins/metrics.js'
import { model } from './plugins/model.js'
import { observation } from './plugins/observation.js'
import { openId } from './plugins/openid.js'
import { sessions } from './plugins/sessions.js'
import { shared } from './plugins/shared.js'
import { ownTokens, tokens } from './plugins/tokens.js'
import { quotas } from './quotas.js'
import { aboutTheService } from './routes/about.js'
import { administration } from './routes/administration.js'
import { operations } from './routes/operations.js'
import { page } from './routes/page.js'
import { signIn } from './routes/sign-in.js'
import { standingOfCaller } from './routes/standing.js'

/** Options for the program that runs the service. */
export interface ServiceSettings {
  /** The destination of the log. Default: standard output. */
  readonly log?: NodeJS.WritableStream
  /** The clock of the counters; returns monotonic milliseconds. */
  readonly clock?: () => number
}

/** Creates the service. It is ready to listen. */
export async function createService ({ log, clock }: ServiceSettings = {}): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify({
    logger: { ...(log && { stream: log }), serializers: logSerializers },
    logController: new DiscreetLog(),
    // Values of a wrong type are answered with 400 instead of being converted.
    ajv: { customOptions: { coerceTypes: false } },
    forceCloseConnections: true
  })
  await app.register(errors)
  await app.register(configuration)
  await app.register(hosts, { names: namesOf(app.config), onLoopback: app.onLoopback })
  await app.register(developmentProvider)
  await app.register(ownTokens)
  await app.register(tokens)
  await app.register(sessions)
  await app.register(authentication, clock === undefined ? {} : { clock })
  await app.register(openId)
  await app.register(fastifySSE)
  await app.register(metrics)
  await app.register(documentation)
  await app.register(shared, clock === undefined ? {} : { clock })
  await app.register(observation, clock === undefined ? {} : { clock })
  await app.register(quotaPlugin, { quotas, preferenceTimeout: 250 })
  await app.register(model)
  await app.register(operations)
  await app.register(page)
  await app.register(signIn)
  await app.register(standingOfCaller)
  await app.register(administration)
  await app.register(aboutTheService)
  return app
}
