import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import * as client from 'openid-client'
import { clientId as developmentClientId } from '../development-provider/provider.js'
import type { PendingSignIn, SessionUser } from './sessions.js'

/** Sign-in at an OpenID provider, by authorization code with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636). */
interface OpenId {
  /** Where the browser goes to sign in, and what its session keeps until it comes back. */
  begin (): Promise<{ location: URL, pending: PendingSignIn }>
  /** Who has come back. Rejects where the answer, its code or its ID token is not what was asked for. */
  complete (query: string, pending: PendingSignIn): Promise<SessionUser>
  /** Where the browser goes to sign out at the provider as well; null where the provider has no such place. */
  signOut (): Promise<URL | null>
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Null where there is no provider to sign in at. */
    openId: OpenId | null
  }
}

export const callbackPath = '/sign-in/openid/callback'

export const openId = createPlugin(async function openId (app: FastifyInstance) {
  const { OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET } = app.config
  const issuer = OIDC_ISSUER === '' ? app.developmentProvider?.issuer : OIDC_ISSUER
  if (issuer === undefined) {
    app.decorate('openId', null)
    return
  }
  const clientId = OIDC_ISSUER === '' ? developmentClientId : OIDC_CLIENT_ID
  const configuration = discoverOnce(new URL(issuer), clientId, OIDC_CLIENT_SECRET)
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

// The provider is asked when somebody first signs in, and again later where it did not answer.
function discoverOnce (issuer: URL, clientId: string, secret: string): () => Promise<client.Configuration> {
  const authentication = secret === '' ? client.None() : client.ClientSecretBasic(secret)
  // By default an ID token that came by TLS is believed; here its signature is verified whichever way it came.
  const execute = [client.enableNonRepudiationChecks, ...(issuer.protocol === 'http:' ? [client.allowInsecureRequests] : [])]
  let discovery: Promise<client.Configuration> | undefined
  return () => {
    discovery ??= client.discovery(issuer, clientId, undefined, authentication, { execute, timeout: 5 }).catch((error: unknown) => {
      discovery = undefined
      throw error
    })
    return discovery
  }
}
