// Sends refusals as problem details (RFC 9457).
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin, { type QuotaDecision } from 'fastify-llm-quota'

function problemOf ({ outcome, limit }: QuotaDecision) {
  switch (outcome) {
    case 'rejected': return { type: 'https://service.example/problems/quota', title: 'Too many requests', status: 429, detail: `The limit is ${limit} requests per minute.` }
    case 'unauthenticated': return { type: 'https://service.example/problems/authentication', title: 'Authentication required', status: 401 }
    default: return { type: 'https://service.example/problems/unavailable', title: 'Temporarily unavailable', status: 503 }
  }
}

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
await app.register(fastifyJwt, { secret })
// The quota refuses a request without a valid token.
app.addHook('onRequest', async (request) => { await request.jwtVerify().catch(() => {}) })
await app.register(quotaPlugin, {
  perMinute: 3,
  refusalBody: (decision) => ({ contentType: 'application/problem+json', body: JSON.stringify(problemOf(decision)) })
})

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
