// Sets a limit for each plan: the preference reader gets the request, so it can return a different limit for each caller.
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin, { type PreferenceReader } from 'fastify-llm-quota'

declare module '@fastify/jwt' {
  interface FastifyJWT { user: unknown }
}

const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')

const limits = new Map<unknown, number>([['free', 2], ['team', 5]])

const preferences: PreferenceReader = {
  // For a plan without a limit, this returns undefined, and the configured limit applies.
  get: (key, { user }) => key === 'rate-limit.per-minute' && typeof user === 'object' && user !== null && 'plan' in user ? limits.get(user.plan) : undefined
}

const app = Fastify()
await app.register(fastifyJwt, { secret, verify: { algorithms: ['HS256'], requiredClaims: ['iss', 'sub', 'exp'] } })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin, { preferences, perMinute: 3 })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
