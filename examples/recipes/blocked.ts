// Refuses the requests of blocked callers with 403. They are listed by digest, as in the quota's decisions.
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin, { callerKey, tokenAuthentication } from 'fastify-llm-quota'

const blocked = new Set(process.env['BLOCKED_CALLERS']?.split(/[\s,]+/))

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
await app.register(fastifyJwt, { secret })
app.addHook('onRequest', async (request, reply) => {
  await request.jwtVerify()
  const key = callerKey(tokenAuthentication(request.user))
  if (key !== null && blocked.has(key)) return reply.code(403).send({ error: 'This account is blocked.', status: 403 })
})
await app.register(quotaPlugin)

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
