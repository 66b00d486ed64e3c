// Identifies callers by an OpenID Connect login in the browser, which is stored in an encrypted cookie. A login and a bearer token with
// the same issuer and subject share a counter.
import { randomBytes } from 'node:crypto'
import fastifySecureSession from '@fastify/secure-session'
import Fastify from 'fastify'
import quotaPlugin, { tokenAuthentication } from 'fastify-llm-quota'
import * as client from 'openid-client'

declare module '@fastify/secure-session' {
  interface SessionData {
    claims: { iss: string, sub: string }
    pending: { state: string, nonce: string, codeVerifier: string }
  }
}

declare module 'fastify' {
  interface FastifyRequest { user: unknown }
}

const { OIDC_ISSUER: issuer = '', OIDC_CLIENT_ID: clientId = '', OIDC_CLIENT_SECRET: secret, PORT: port = '3000' } = process.env
const onLoopback = issuer.startsWith('http://127.0.0.1:')
const provider = await client.discovery(new URL(issuer), clientId, undefined, secret === undefined ? client.None() : client.ClientSecretBasic(secret),
  { execute: [client.enableNonRepudiationChecks, ...(onLoopback ? [client.allowInsecureRequests] : [])] })

const app = Fastify()
await app.register(fastifySecureSession, { key: randomBytes(32), cookie: { path: '/', httpOnly: true, sameSite: 'lax', secure: !onLoopback } })
app.decorateRequest('user', null)
app.addHook('onRequest', async (request) => {
  const claims = request.session.get('claims')
  if (claims !== undefined) request.user = tokenAuthentication(claims)
})
await app.register(quotaPlugin)

app.get('/sign-in', async (request, reply) => {
  const pending = { state: client.randomState(), nonce: client.randomNonce(), codeVerifier: client.randomPKCECodeVerifier() }
  request.session.set('pending', pending)
  return reply.redirect(client.buildAuthorizationUrl(provider, {
    redirect_uri: `${app.listeningOrigin}/signed-in`,
    scope: 'openid',
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: await client.calculatePKCECodeChallenge(pending.codeVerifier),
    code_challenge_method: 'S256'
  }).href)
})

app.get('/signed-in', async (request, reply) => {
  const pending = request.session.get('pending')
  request.session.set('pending', undefined)
  if (pending === undefined) return reply.code(400).send({ error: 'No sign-in was started.', status: 400 })
  try {
    const tokens = await client.authorizationCodeGrant(provider, new URL(request.url, app.listeningOrigin),
      { expectedState: pending.state, expectedNonce: pending.nonce, pkceCodeVerifier: pending.codeVerifier, idTokenExpected: true })
    const { iss = '', sub = '' } = tokens.claims() ?? {}
    request.session.set('claims', { iss, sub })
    return reply.redirect('/')
  } catch {
    return reply.code(401).send({ error: 'The sign-in failed.', status: 401 })
  }
})

app.get('/api/analyze-node', { exposeHeadRoute: false }, async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(port) }))
