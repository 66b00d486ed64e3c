import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { audience } from '../development-provider/provider.js'
import { startDevelopmentProvider } from '../development-provider/server.js'
import type { TrustedIssuer } from '../published-keys.js'

/** An OpenID provider that the service runs itself. */
interface DevelopmentProvider {
  /** Starts the provider. Called at the first sign-in, because most users of the example do not need it. */
  start (): Promise<TrustedIssuer>
  /** Null until the provider has started. */
  issuer (): TrustedIssuer | null
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Null if another provider is configured, or if other machines can reach the service. */
    developmentProvider: DevelopmentProvider | null
  }
}

export const developmentProvider = createPlugin(async function developmentProvider (app: FastifyInstance) {
  if (app.config.OIDC_ISSUER !== '' || !app.onLoopback) {
    app.decorate('developmentProvider', null)
    return
  }
  let server: Promise<FastifyInstance> | undefined
  let issuer: TrustedIssuer | null = null
  app.decorate('developmentProvider', {
    issuer: () => issuer,
    async start () {
      if (server === undefined) {
        app.log.info('The OpenID provider for development starts. It has invented users and keeps everything in memory. You can ignore its warnings that this is for development only and, on Node.js 20, that it recommends a later release.')
        server = startDevelopmentProvider()
        server.catch(() => { server = undefined })
      }
      const { listeningOrigin } = await server
      issuer ??= { issuer: listeningOrigin, audience, jwksUrl: '' }
      return issuer
    }
  })
  app.addHook('onClose', async () => { await (await server)?.close() })
}, { name: 'development-provider', dependencies: ['configuration'] })
