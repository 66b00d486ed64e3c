// Counts requests by tenant. All users of a tenant share one counter, and each tenant can have its own limit.
import fastifyJwt from '@fastify/jwt'
import Fastify, { type FastifyRequest } from 'fastify'
import quotaPlugin, { type PreferenceReader, tokenAuthentication } from 'fastify-llm-quota'

declare module '@fastify/jwt' {
  interface FastifyJWT { user: unknown }
}

const issuer = 'https://identity.example'
const limits = new Map<unknown, number>([['acme', 5]])

const tenantOf = ({ user }: FastifyRequest): unknown => typeof user === 'object' && user !== null && 'tenant' in user ? user.tenant : undefined

// A tenant without its own limit has the configured limit.
const preferences: PreferenceReader = { get: (_key, request) => limits.get(tenantOf(request)) }

const app = Fastify()
await app.register(fastifyJwt, { secret: process.env['JWT_SECRET'] ?? '', verify: { allowedIss: issuer, requiredClaims: ['tenant'] } })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
// This issuer differs from that of the tokens, so that no subject of a token can share a counter with a tenant.
const authentication = (request: FastifyRequest) => tokenAuthentication({ iss: `${issuer}#tenants`, sub: tenantOf(request) })
await app.register(quotaPlugin, { authentication, preferences, perMinute: 3 })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
