import createError from '@fastify/error'
import fastifyBasicAuth from '@fastify/basic-auth'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import createPlugin from 'fastify-plugin'
import { localAuthentication, protectedOperations, tokenAuthentication } from 'fastify-llm-quota'
import type { Accounts } from '../accounts/accounts.js'
import { demonstrationAccounts, noAccounts } from '../accounts/demonstration.js'
import type { SessionUser } from './sessions.js'
import { ownIssuer } from './tokens.js'

/** Somebody who has signed in, or sent what proves who they are. */
interface SignedIn {
  readonly by: 'token' | 'openid' | 'local'
  /** What people are called; it is shown to nobody but themselves, and never logged. */
  readonly name: string
  readonly administrator: boolean
}

declare module 'fastify' {
  interface FastifyInstance {
    accounts: Accounts
  }
  interface FastifyRequest {
    signedIn: SignedIn | null
  }
}

const WrongCredentials = createError('WRONG_CREDENTIALS', 'The user name or the password is wrong.', 401)

/** Finds out who sends each request: by its bearer token, its user name and password, or its session. A request without any is nobody's. */
export const authentication = createPlugin(async function authentication (app: FastifyInstance) {
  app.decorate('accounts', app.onLoopback ? demonstrationAccounts : noAccounts)
  app.decorateRequest('signedIn', null)

  // Browsers are not asked for a password: they would keep it, and send it with requests that another site forged.
  await app.register(fastifyBasicAuth, {
    authenticate: false,
    async validate (username, password, request) {
      const account = await app.accounts.authenticate(username, password)
      if (account === null) throw new WrongCredentials()
      identify(request, { kind: 'local', username })
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

  // What a session can be made to do by another site's page, its own page proves with a token that no other site can read.
  app.addHook('preValidation', function protectSession (request, reply, done) {
    if (request.headers.authorization === undefined && request.signedIn !== null && spendsOrChanges(request)) app.csrfProtection(request, reply, done)
    else done()
  })
}, { name: 'authentication', dependencies: ['tokens', 'sessions'] })

function byToken (request: FastifyRequest, claims: object): void {
  request.user = tokenAuthentication(claims)
  const { iss, sub, role } = Object.assign({ iss: undefined, sub: undefined, role: undefined }, claims)
  // The word of another issuer makes nobody an administrator.
  request.signedIn = { by: 'token', name: String(sub), administrator: iss === ownIssuer && role === 'admin' }
}

function identify (request: FastifyRequest, user: SessionUser | undefined): void {
  if (user?.kind === 'openid') {
    request.user = tokenAuthentication({ iss: user.iss, sub: user.sub })
    request.signedIn = { by: 'openid', name: user.name, administrator: false }
  } else if (user?.kind === 'local') {
    const account = request.server.accounts.find(user.username)
    if (account === undefined) return
    request.user = localAuthentication(account.username)
    request.signedIn = { by: 'local', name: account.username, administrator: account.administrator }
  }
}

function spendsOrChanges ({ method, routeOptions }: FastifyRequest): boolean {
  return !['GET', 'HEAD', 'OPTIONS'].includes(method) || protectedOperations.some(({ path }) => path === routeOptions.url)
}

/** Lets only administrators pass. */
export async function requireAdministrator (request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (request.signedIn === null) return reply.code(401).send({ error: 'Sign in first.', status: 401 })
  if (!request.signedIn.administrator) return reply.code(403).send({ error: 'Only an administrator may do this.', status: 403 })
}

/** Lets only those pass who have signed in. */
export async function requireSignIn (request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (request.signedIn === null) return reply.code(401).send({ error: 'Sign in first.', status: 401 })
}
