// Observes for as long as you like which callers a limit would reject. Every request passes.
import { subscribe } from 'node:diagnostics_channel'
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin, { quotaDecisions, type QuotaDecisionMessage } from 'fastify-llm-quota'

// The highest count of each caller in any window, and how many requests have no caller, by reason.
const highest = new Map<string, number>()
const unauthenticated = new Map<string, number>()

subscribe(quotaDecisions.name, (message) => {
  const { decision } = message as QuotaDecisionMessage
  const { quota, outcome, reason, callerKey, count } = decision
  if (quota !== 'default') return
  if (outcome === 'unauthenticated') unauthenticated.set(reason, (unauthenticated.get(reason) ?? 0) + 1)
  if (outcome === 'admitted') highest.set(callerKey, Math.max(count, highest.get(callerKey) ?? 0))
})

function report () {
  const counts = [...highest.values()]
  const rejected = [2, 5, 10, 20, 50].map((limit) => [limit, counts.filter((count) => count > limit).length])
  return { callers: counts.length, callersRejectedAtLimit: Object.fromEntries(rejected), unauthenticated: Object.fromEntries(unauthenticated) }
}

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
await app.register(fastifyJwt, { secret })
// A request without a valid token passes and is reported.
app.addHook('onRequest', async (request) => { await request.jwtVerify().catch(() => {}) })
// A rejected request is not counted, so the limit is higher than any count that you expect.
await app.register(quotaPlugin, { mode: 'shadow', perMinute: 1000 })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))
app.get('/report', async () => report())

// The report is in memory: a restart or a deployment begins a new one.
setInterval(() => { console.log(JSON.stringify(report())) }, 3_600_000).unref()
console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
