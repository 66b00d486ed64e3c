// The smallest service with a quota: ten requests per minute for each caller with a verified token.
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin from 'fastify-llm-quota'

const app = Fastify()
await app.register(fastifyJwt, { secret: process.env.JWT_SECRET ?? 'for development on this machine alone' })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin)
app.post('/api/analyze', async () => ({ answer: 'from your model' }))
console.log(await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 3000) }))
