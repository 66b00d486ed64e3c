// Identifies callers by bearer tokens that @fastify/jwt verifies. The quota uses the claims in request.user.
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin from 'fastify-llm-quota'

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
await app.register(fastifyJwt, { secret, verify: { algorithms: ['HS256'], requiredClaims: ['iss', 'sub', 'exp'] } })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin)

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
