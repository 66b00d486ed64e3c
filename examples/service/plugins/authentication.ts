import fastifyBasicAuth from '@fastify/basic-auth'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import type { JWTPayload } from 'jose'
import { type Authentication, callerKey, localAuthentication, protectedOperations, tokenAuthentication } from 'fastify-llm-quota'
import { Accounts, demonstrationAccounts } from '../accounts/accounts.js'
import { ServiceError } from '../service-error.js'
import type { SessionUser } from './sessions.js'
import { ownIssuer } from './tokens.js'

/** An authenticated user. */
interface SignedIn {
  readonly by: 'token' | 'openid' | 'local'
  /** The display name. It is only shown to the user, and never logged. */
  readonly name: string
  readonly administrator: boolean
  /** The caller key in the default quota; null if there is none. */
  readonly caller: string | null
}

declare module 'fastify' {
  interface FastifyInstance {
    accounts: Accounts
  }
  interface FastifyRequest {
    signedIn: SignedIn | null
  }
}

/** Authenticates each request by its bearer token, its user name and password, or its session. Other requests are unauthenticated. */
export const authentication = createPlugin(async function authentication (app: FastifyInstance, { clock }: { clock?: () => number }) {
  // If other machines can reach the service, it has no local accounts by default.
  app.decorate('accounts', new Accounts(app.onLoopback ? demonstrationAccounts : [], clock))
  app.decorateRequest('signedIn', null)

  // Basic authentication does not send a challenge, because browsers would store the password and send it with forged requests too.
  await app.register(fastifyBasicAuth, {
    authenticate: false,
    async validate (username, password, request) {
      const account = await app.accounts.authenticate(username, password)
      if (account === null) throw new ServiceError(401, 'WRONG_CREDENTIALS', 'The user name or the password is wrong.')
      identify(request, { kind: 'local', username, endsAt: Infinity })
    }
  })

  app.addHook('onRequest', function authenticate (request, reply, done) {
    const { authorization } = request.headers
    if (authorization === undefined) {
      identify(request, request.session.get('user'))
      done()
    } else if (/^basic(\s|$)/i.test(authorization)) {
      Reflect.apply(app.basicAuth, app, [request, reply, done])
    } else {
      app.verifyToken(request).then((claims) => { byToken(request, claims) }).then(() => { done() }, done)
    }
  })

  // A request with a session must have a CSRF token, because a page on another site can send requests with the session's cookie.
  app.addHook('preValidation', function protectSession (request, reply, done) {
    if (request.headers.authorization === undefined && request.signedIn !== null && spendsOrChanges(request)) app.csrfProtection(request, reply, done)
    else done()
  })
}, { name: 'authentication', dependencies: ['tokens', 'sessions'] })

function byToken (request: FastifyRequest, claims: JWTPayload): void {
  const { iss, sub, role } = claims
  // Tokens of another issuer cannot grant the administrator role.
  signIn(request, tokenAuthentication(claims), { by: 'token', name: String(sub), administrator: iss === ownIssuer && role === 'admin' })
}

function identify (request: FastifyRequest, user: SessionUser | undefined): void {
  if (user === undefined || user.endsAt <= Date.now()) return
  if (user.kind === 'openid') {
    signIn(request, tokenAuthentication({ iss: user.iss, sub: user.sub }), { by: 'openid', name: user.name, administrator: false })
    return
  }
  const account = request.server.accounts.find(user.username)
  if (account === undefined) return
  signIn(request, localAuthentication(account.username), { by: 'local', name: account.username, administrator: account.administrator })
}

function signIn (request: FastifyRequest, authentication: Authentication, signedIn: Omit<SignedIn, 'caller'>): void {
  request.user = authentication
  request.signedIn = { ...signedIn, caller: callerKey(authentication) }
}

function spendsOrChanges ({ method, routeOptions }: FastifyRequest): boolean {
  return !['GET', 'HEAD', 'OPTIONS'].includes(method) || protectedOperations.some(({ path }) => path === routeOptions.url)
}

/** Requires an administrator. */
export async function requireAdministrator ({ signedIn }: FastifyRequest): Promise<void> {
  if (signedIn === null) throw notSignedIn()
  if (!signedIn.administrator) throw new ServiceError(403, 'NOT_ADMINISTRATOR', 'This requires an administrator.')
}

/** Requires an authenticated user. */
export async function requireSignIn ({ signedIn }: FastifyRequest): Promise<void> {
  if (signedIn === null) throw notSignedIn()
}

function notSignedIn (): ServiceError {
  return new ServiceError(401, 'NOT_SIGNED_IN', 'Sign in first.')
}
