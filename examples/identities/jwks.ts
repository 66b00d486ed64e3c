// Callers by the bearer tokens of an issuer that publishes its keys, such as an identity provider: RS256 or EdDSA.
import { createPublicKey } from 'node:crypto'
import fastifyJwt, { type TokenOrHeader } from '@fastify/jwt'
import Fastify, { type FastifyRequest } from 'fastify'
import quotaPlugin from 'fastify-llm-quota'
import buildGetJwks from 'get-jwks'

const { JWT_ISSUER: issuer = '', JWT_AUDIENCE: audience = '', PORT: port = '3000' } = process.env
if (issuer === '' || audience === '') throw new Error('JWT_ISSUER and JWT_AUDIENCE must be set')

// The keys are found by the issuer's discovery document, and kept for a minute. Only this issuer is ever asked.
const jwks = buildGetJwks({ providerDiscovery: true })

async function publicKey (_request: FastifyRequest, token: TokenOrHeader): Promise<string> {
  const { kid, alg } = 'header' in token ? token.header : token
  const key = await jwks.getJwk({ domain: issuer, alg: String(alg), kid: String(kid) })
  return createPublicKey({ key: { ...key }, format: 'jwk' }).export({ type: 'spki', format: 'pem' }).toString()
}

const app = Fastify()
await app.register(fastifyJwt, {
  decode: { complete: true },
  secret: publicKey,
  verify: { algorithms: ['RS256', 'EdDSA'], allowedIss: issuer, allowedAud: audience, requiredClaims: ['iss', 'sub', 'aud', 'exp'] }
})
app.addHook('onRequest', async (request, reply) => {
  // Whatever is wrong with a token, or with finding its key, nobody is let in.
  try {
    await request.jwtVerify()
  } catch {
    return reply.code(401).send({ error: 'The token is not to be trusted.', status: 401 })
  }
})
await app.register(quotaPlugin)

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(port) }))
