import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { audience } from '../development-provider/provider.js'
import { startDevelopmentProvider } from '../development-provider/server.js'
import type { TrustedIssuer } from './tokens.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The provider that the service runs itself where none is configured; null elsewhere, and where other machines reach the service. */
    developmentProvider: TrustedIssuer | null
  }
}

export const developmentProvider = createPlugin(async function developmentProvider (app: FastifyInstance) {
  if (app.config.OIDC_ISSUER !== '' || !app.onLoopback) {
    app.decorate('developmentProvider', null)
    return
  }
  const provider = await startDevelopmentProvider()
  app.addHook('onClose', async () => { await provider.close() })
  app.decorate('developmentProvider', { issuer: provider.listeningOrigin, audience, jwksUrl: '' })
}, { name: 'development-provider', dependencies: ['configuration'] })
