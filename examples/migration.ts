// A service during the migration from the earlier quota. The earlier quota still enforces its limit, the new one runs in shadow mode,
// and the program prints each request on which they decide differently.
import './compare-decisions.js'
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin from 'fastify-llm-quota'
import earlierQuotaPlugin from 'fastify-llm-quota/earlier'

const app = Fastify()
await app.register(fastifyJwt, { secret: process.env.JWT_SECRET ?? 'for development on this machine alone' })
app.addHook('onRequest', async (request) => {
  if (request.headers.authorization !== undefined) await request.jwtVerify()
})
await app.register(quotaPlugin, { mode: 'shadow' })
await app.register(earlierQuotaPlugin)
app.post('/api/analyze', async () => ({ answer: 'from your model' }))
console.log(await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 3000) }))
