import fastifyFormbody from '@fastify/formbody'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { callbackPath } from '../plugins/openid.js'
import { type Identity, sessionLength } from '../plugins/sessions.js'
import { ServiceError } from '../service-error.js'

interface Credentials { username: string, password: string }

const text = { type: 'string', minLength: 1, maxLength: 200 }
const credentials = { type: 'object', properties: { username: text, password: text }, required: ['username', 'password'] }

/** Routes to read the current user, to sign in with a local account or at the OpenID provider, and to sign out. */
export async function signIn (app: FastifyInstance): Promise<void> {
  await app.register(fastifyFormbody)
  const hidden = { hide: true }

  app.get('/api/session', { exposeHeadRoute: false, schema: hidden }, async ({ signedIn }, reply) => {
    reply.header('cache-control', 'no-store')
    return {
      signedIn: signedIn === null ? null : { by: signedIn.by, name: signedIn.name, administrator: signedIn.administrator },
      caller: signedIn?.caller?.slice(0, 8) ?? null,
      ways: { local: app.onLoopback, openId: app.openId !== null, developmentProvider: app.developmentProvider !== null },
      csrfToken: reply.generateCsrf()
    }
  })

  app.post<{ Body: Credentials }>('/sign-in/local', { preValidation: app.csrfProtection, schema: { ...hidden, body: credentials } }, async (request, reply) => {
    const { username, password } = request.body
    const account = await app.accounts.authenticate(username, password)
    if (account === null) throw new ServiceError(401, 'WRONG_CREDENTIALS', 'The user name or the password is wrong.')
    begin(request, { kind: 'local', username: account.username })
    return reply.code(204).send()
  })

  app.get('/sign-in/openid', { exposeHeadRoute: false, schema: hidden }, async (request, reply) => {
    if (app.openId === null) throw new ServiceError(404, 'NO_PROVIDER', 'No OpenID provider is configured.')
    try {
      const { location, pending } = await app.openId.begin()
      request.session.set('pendingSignIn', pending)
      return reply.redirect(location.href, 303)
    } catch (error) {
      request.log.error({ code: codeOf(error) }, 'the OpenID provider cannot be reached')
      return reply.redirect('/?sign-in=unavailable', 303)
    }
  })

  app.get(callbackPath, { exposeHeadRoute: false, schema: hidden }, async (request, reply) => {
    const pending = request.session.get('pendingSignIn')
    request.session.set('pendingSignIn', undefined)
    if (app.openId === null || pending === undefined) return reply.redirect('/?sign-in=failed', 303)
    try {
      begin(request, await app.openId.complete(request.url.slice(callbackPath.length), pending))
      return reply.redirect('/', 303)
    } catch (error) {
      // The error itself can contain the code, the token or the claims.
      request.log.warn({ code: codeOf(error) }, 'a sign-in at the OpenID provider failed')
      return reply.redirect('/?sign-in=failed', 303)
    }
  })

  app.post('/sign-out', { preValidation: app.csrfProtection, schema: hidden }, async (request) => {
    const atProvider = request.signedIn?.by === 'openid' ? await app.openId?.signOut().catch(() => null) : null
    request.session.delete()
    return { location: atProvider?.href ?? '/' }
  })
}

// Prevents session fixation: a session that was known before the sign-in is not valid after it.
function begin (request: FastifyRequest, identity: Identity): void {
  request.session.regenerate()
  request.session.set('user', { ...identity, endsAt: Date.now() + sessionLength * 1000 })
}

function codeOf (error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
