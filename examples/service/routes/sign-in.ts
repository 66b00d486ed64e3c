import fastifyFormbody from '@fastify/formbody'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { callbackPath } from '../plugins/openid.js'
import type { SessionUser } from '../plugins/sessions.js'

interface Credentials { username: string, password: string }

const text = { type: 'string', minLength: 1, maxLength: 200 }
const credentials = { type: 'object', properties: { username: text, password: text }, required: ['username', 'password'] }

/** Lets people sign in, by a local account or at the OpenID provider, and sign out. */
export async function signIn (app: FastifyInstance): Promise<void> {
  await app.register(fastifyFormbody)
  const hidden = { hide: true }

  app.post<{ Body: Credentials }>('/sign-in/local', { preValidation: app.csrfProtection, schema: { ...hidden, body: credentials } }, async (request, reply) => {
    const { username, password } = request.body
    const account = await app.accounts.authenticate(username, password)
    if (account === null) return reply.code(401).send({ error: 'The user name or the password is wrong.', status: 401 })
    begin(request, { kind: 'local', username: account.username })
    return reply.code(204).send()
  })

  app.get('/sign-in/openid', { exposeHeadRoute: false, schema: hidden }, async (request, reply) => {
    if (app.openId === null) return reply.code(404).send({ error: 'There is no OpenID provider to sign in at.', status: 404 })
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
    if (app.openId === null || pending === undefined) return reply.redirect('/?sign-in=refused', 303)
    try {
      begin(request, await app.openId.complete(request.url.slice(callbackPath.length), pending))
      return reply.redirect('/', 303)
    } catch (error) {
      // The error itself may hold the code, the token or the claims.
      request.log.warn({ code: codeOf(error) }, 'a sign-in at the OpenID provider was refused')
      return reply.redirect('/?sign-in=refused', 303)
    }
  })

  app.post('/sign-out', { preValidation: app.csrfProtection, schema: hidden }, async (request) => {
    const atProvider = request.signedIn?.by === 'openid' ? await app.openId?.signOut().catch(() => null) : null
    request.session.delete()
    return { location: atProvider?.href ?? '/' }
  })
}

// A session that somebody knew before the sign-in is not the one after it.
function begin (request: FastifyRequest, user: SessionUser): void {
  request.session.regenerate()
  request.session.set('user', user)
}

function codeOf (error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
