// Limits each user to three requests per minute and all users of an organisation together to a number of requests per day.
import fastifyJwt from '@fastify/jwt'
import Fastify, { type FastifyRequest } from 'fastify'
import quotaPlugin, { tokenAuthentication, type PreferenceReader } from 'fastify-llm-quota'

declare module '@fastify/jwt' {
  interface FastifyJWT { user: unknown }
}

const issuer = 'https://identity.example'
const limits = new Map<unknown, number>([['acme', 5]])

const organisationOf = ({ user }: FastifyRequest): unknown => typeof user === 'object' && user !== null && 'organisation' in user ? user.organisation : undefined

// An organisation without a limit of its own has the configured limit.
const preferences: PreferenceReader = {
  get: (key, request) => key === 'rate-limit.organisation.per-day' ? limits.get(organisationOf(request)) : undefined
}

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
await app.register(fastifyJwt, { secret, verify: { allowedIss: issuer, requiredClaims: ['organisation'] } })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin, {
  perMinute: 3,
  preferences,
  quotas: {
    organisation: {
      perDay: 8,
      operations: [{ method: 'POST', path: '/api/analyze' }],
      authentication: (request) => tokenAuthentication({ iss: issuer, sub: organisationOf(request) })
    }
  }
})

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
