// Allows pages from another origin to call the service and to read the headers of the quota.
import fastifyCors from '@fastify/cors'
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin from 'fastify-llm-quota'

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
// Registered first, so that refusals also have the CORS headers.
await app.register(fastifyCors, { origin: 'https://app.example', exposedHeaders: ['RateLimit', 'RateLimit-Policy', 'Retry-After'] })
await app.register(fastifyJwt, { secret })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin, { perMinute: 3, rateLimitHeaders: 'draft-10' })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
