// Returns the caller's limit and remaining requests, without counting the request.
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin from 'fastify-llm-quota'

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
await app.register(fastifyJwt, { secret })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin, { perMinute: 3 })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

app.get('/api/quota', async (request, reply) => {
  const standing = await app.quotaStanding(request)
  return standing ?? reply.code(401).send({ error: 'Authentication is required.', status: 401 })
})

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
