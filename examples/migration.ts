// A service on the way from the earlier quota to the governing one: the earlier one still refuses, the governing one
// takes its decisions in shadow, and what they disagree about is printed.
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
