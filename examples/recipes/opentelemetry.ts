// Counts the quota's decisions with OpenTelemetry. Load the SDK first, for example with: node --import ./instrumentation.js service.js
import { subscribe } from 'node:diagnostics_channel'
import fastifyJwt from '@fastify/jwt'
import { metrics } from '@opentelemetry/api'
import Fastify from 'fastify'
import quotaPlugin, { quotaDecisions, type QuotaDecisionMessage } from 'fastify-llm-quota'

const decisions = metrics.getMeter('fastify-llm-quota').createCounter('llm_quota.decisions', { description: 'Decisions by quota, operation and outcome.' })

// No attribute identifies a caller, so the number of time series is bounded.
subscribe(quotaDecisions.name, (message) => {
  const { quota, operation, outcome, enforced } = (message as QuotaDecisionMessage).decision
  decisions.add(1, { quota, operation: `${operation.method} ${operation.path}`, outcome, enforced })
})

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
await app.register(fastifyJwt, { secret })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin, { perMinute: 3 })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
