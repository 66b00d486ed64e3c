// Identifies callers by the bearer tokens of an issuer that publishes its keys, such as an identity provider: RS256 or EdDSA.
import Fastify from 'fastify'
import quotaPlugin, { tokenAuthentication } from 'fastify-llm-quota'
import { createRemoteJWKSet, jwtVerify } from 'jose'

declare module 'fastify' {
  interface FastifyRequest { user: unknown }
}

const { JWT_ISSUER: issuer = '', JWT_AUDIENCE: audience = '', PORT: port = '3000' } = process.env
if (issuer === '' || audience === '') throw new Error('JWT_ISSUER and JWT_AUDIENCE must be set')

// The keys are requested only from this issuer, never from an address in a token.
const discovery = await fetch(`${issuer}/.well-known/openid-configuration`, { signal: AbortSignal.timeout(5000) })
const { jwks_uri: keysUrl } = Object(await discovery.json())
// The keys are cached for ten minutes and requested at most once every 30 seconds, even if many tokens refer to unknown keys.
const keys = createRemoteJWKSet(new URL(String(keysUrl)), { cacheMaxAge: 600_000, cooldownDuration: 30_000, timeoutDuration: 2000 })

const app = Fastify()
app.decorateRequest('user', null)
app.addHook('onRequest', async (request, reply) => {
  const [, token = ''] = /^bearer +(\S+)$/i.exec(request.headers.authorization ?? '') ?? []
  // The response is the same if the token is invalid and if its key is not available.
  try {
    const { payload } = await jwtVerify(token, keys, { algorithms: ['RS256', 'EdDSA'], issuer, audience, requiredClaims: ['sub', 'exp'] })
    request.user = tokenAuthentication(payload)
  } catch {
    return reply.code(401).send({ error: 'The token is not valid.', status: 401 })
  }
})
await app.register(quotaPlugin)

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(port) }))
