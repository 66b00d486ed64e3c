import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import type { ClientMetadata, Configuration, Provider } from 'oidc-provider'
import type { Person } from './people.js'
import { messagePage, signOutPage } from './pages.js'

/** The audience of the development provider's access tokens. */
export const audience = 'urn:example:language-service'

/** The public client that the service, and any program on this machine, uses at the development provider. */
export const clientId = 'language-service'

const seconds = { minute: 60, hour: 60 * 60 }

// A native client can use any port in loopback redirects (RFC 8252, section 7.3), so all instances on this machine can use the provider.
const client: ClientMetadata = {
  client_id: clientId,
  client_name: 'Language service',
  application_type: 'native',
  token_endpoint_auth_method: 'none',
  redirect_uris: ['http://127.0.0.1/sign-in/openid/callback', 'http://localhost/sign-in/openid/callback', 'http://[::1]/sign-in/openid/callback'],
  post_logout_redirect_uris: ['http://127.0.0.1/', 'http://localhost/', 'http://[::1]/'],
  grant_types: ['authorization_code'],
  response_types: ['code']
}

/**
 * Creates an OpenID provider that keeps its keys, sessions and users in memory. Access tokens are JWTs, so that a script can act as the
 * same user as a browser.
 */
export async function createProvider (issuer: string, people: readonly Person[]): Promise<Provider> {
  const { interactionPolicy, Provider } = await import('oidc-provider')
  // The service and the provider belong together, so users are not asked for consent.
  const policy = interactionPolicy.base()
  policy.remove('consent')
  const configuration: Configuration = {
    clients: [client],
    jwks: { keys: [signingKey()] },
    cookies: { keys: [randomBytes(32).toString('base64url')], names: { interaction: 'provider-interaction', resume: 'provider-resume', session: 'provider-session' } },
    scopes: ['openid', 'profile'],
    claims: { openid: ['sub'], profile: ['name', 'preferred_username'] },
    conformIdTokenClaims: false,
    findAccount: (_context, sub) => accountOf(people.find((person) => person.sub === sub)),
    interactions: { policy, url: (_context, interaction) => `/interaction/${interaction.uid}` },
    async loadExistingGrant ({ oidc }) {
      const grant = new oidc.provider.Grant({ clientId: oidc.client?.clientId, accountId: oidc.session?.accountId })
      grant.addOIDCScope('openid profile')
      await grant.save()
      return grant
    },
    features: {
      devInteractions: { enabled: false },
      rpInitiatedLogout: {
        enabled: true,
        async logoutSource (context, form) { context.body = signOutPage(form) },
        async postLogoutSuccessSource (context) { context.body = messagePage('You are signed out.') }
      },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({ scope: '', audience, accessTokenFormat: 'jwt', accessTokenTTL: seconds.hour })
      }
    },
    async renderError (context, out) { context.body = messagePage(`${out.error}: ${out.error_description ?? ''}`) },
    ttl: {
      AccessToken: seconds.hour,
      AuthorizationCode: seconds.minute,
      Grant: seconds.hour,
      IdToken: seconds.hour,
      Interaction: 10 * seconds.minute,
      Session: seconds.hour
    }
  }
  return new Provider(issuer, configuration)
}

function signingKey () {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'RS256', use: 'sig' }
}

function accountOf (person: Person | undefined) {
  if (person === undefined) return undefined
  const { sub, name } = person
  return { accountId: sub, claims: () => ({ sub, name, preferred_username: person.preferredUsername }) }
}
