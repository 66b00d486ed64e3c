// Gives administrators a limit that they cannot reach. All other callers have the configured limit.
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin, { type PreferenceReader } from 'fastify-llm-quota'

declare module '@fastify/jwt' {
  interface FastifyJWT { user: unknown }
}

const isAdministrator = (user: unknown) => typeof user === 'object' && user !== null && 'role' in user && user.role === 'administrator'

const preferences: PreferenceReader = {
  get: (_key, { user }) => isAdministrator(user) ? Number.MAX_SAFE_INTEGER : undefined
}

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
await app.register(fastifyJwt, { secret })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin, { preferences, perMinute: 3 })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
