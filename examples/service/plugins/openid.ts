import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import * as client from 'openid-client'
import { clientId as developmentClientId } from '../development-provider/provider.js'
import type { Identity, PendingSignIn } from './sessions.js'

/** Sign-in at an OpenID provider, with the authorization code flow and PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636). */
interface OpenId {
  /** Returns the address to which the browser is redirected to sign in, and the values that its session stores until it returns. */
  begin (): Promise<{ location: URL, pending: PendingSignIn }>
  /** Returns the user after the redirect back. Rejects if the response, its code or its ID token is invalid. */
  complete (query: string, pending: PendingSignIn): Promise<Identity>
  /** Returns the address to which the browser is redirected to sign out at the provider; null if the provider has none. */
  signOut (): Promise<URL | null>
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Null if there is no OpenID provider. */
    openId: OpenId | null
  }
}

export const callbackPath = '/sign-in/openid/callback'

export const openId = createPlugin(async function openId (app: FastifyInstance) {
  const { OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET } = app.config
  const { developmentProvider } = app
  if (OIDC_ISSUER === '' && developmentProvider === null) {
    app.decorate('openId', null)
    return
  }
  const clientId = developmentProvider === null ? OIDC_CLIENT_ID : developmentClientId
  const issuer = async () => new URL(developmentProvider === null ? OIDC_ISSUER : (await developmentProvider.start()).issuer)
  const configuration = discoverOnce(issuer, clientId, OIDC_CLIENT_SECRET)
  const redirectUri = () => app.publicUrl() + callbackPath

  app.decorate('openId', {
    async begin () {
      const pending = { state: client.randomState(), nonce: client.randomNonce(), codeVerifier: client.randomPKCECodeVerifier() }
      const location = client.buildAuthorizationUrl(await configuration(), {
        redirect_uri: redirectUri(),
        scope: 'openid profile',
        state: pending.state,
        nonce: pending.nonce,
        code_challenge: await client.calculatePKCECodeChallenge(pending.codeVerifier),
        code_challenge_method: 'S256'
      })
      return { location, pending }
    },

    async complete (query, { state, nonce, codeVerifier }) {
      const answer = new URL(redirectUri())
      answer.search = query
      const tokens = await client.authorizationCodeGrant(await configuration(), answer,
        { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: codeVerifier, idTokenExpected: true })
      const claims = tokens.claims()
      if (claims === undefined) throw new Error('there is no ID token')
      const { iss, sub, preferred_username: preferred, name } = claims
      return { kind: 'openid', iss, sub, name: String(preferred ?? name ?? 'somebody').slice(0, 100) }
    },

    async signOut () {
      const discovered = await configuration()
      if (discovered.serverMetadata().end_session_endpoint === undefined) return null
      return client.buildEndSessionUrl(discovered, { client_id: clientId, post_logout_redirect_uri: `${app.publicUrl()}/` })
    }
  })
}, { name: 'openid', dependencies: ['configuration', 'development-provider'] })

// Discovery runs at the first sign-in, and again at a later one if the provider did not answer.
function discoverOnce (issuer: () => Promise<URL>, clientId: string, secret: string): () => Promise<client.Configuration> {
  const authentication = secret === '' ? client.None() : client.ClientSecretBasic(secret)
  const discover = async () => {
    const server = await issuer()
    // By default, the client trusts an ID token that was received over TLS. This makes it always verify the signature.
    const execute = [client.enableNonRepudiationChecks, ...(server.protocol === 'http:' ? [client.allowInsecureRequests] : [])]
    return await client.discovery(server, clientId, undefined, authentication, { execute, timeout: 5 })
  }
  let discovery: Promise<client.Configuration> | undefined
  return () => {
    discovery ??= discover().catch((error: unknown) => {
      discovery = undefined
      throw error
    })
    return discovery
  }
}
