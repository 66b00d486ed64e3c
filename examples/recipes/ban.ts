// Counts the rejections of each caller. After five of them, the caller gets 403 until ten minutes after the latest one.
import { subscribe } from 'node:diagnostics_channel'
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin, { callerKey, quotaDecisions, tokenAuthentication, type QuotaDecisionMessage } from 'fastify-llm-quota'

const allowed = 5
const lifetime = Number(process.env['BLOCK_MILLISECONDS'] ?? 600_000)
const rejections = new Map<string, { count: number, end: number }>()

/** Returns the current rejections of a caller. The entries are in the order in which they end. */
function rejectionsOf (key: string): number {
  for (const [old, { end }] of rejections) {
    if (end > performance.now()) break
    rejections.delete(old)
  }
  return rejections.get(key)?.count ?? 0
}

subscribe(quotaDecisions.name, (message) => {
  const { outcome, enforced, callerKey: key } = (message as QuotaDecisionMessage).decision
  if (outcome !== 'rejected' || !enforced) return
  const count = rejectionsOf(key) + 1
  rejections.delete(key)
  rejections.set(key, { count, end: performance.now() + lifetime })
})

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
await app.register(fastifyJwt, { secret })
app.addHook('onRequest', async (request, reply) => {
  await request.jwtVerify()
  const key = callerKey(tokenAuthentication(request.user))
  if (key !== null && rejectionsOf(key) >= allowed) return reply.code(403).send({ error: 'This account is blocked for some minutes.', status: 403 })
})
await app.register(quotaPlugin, { perMinute: 3, mode: process.env['SHADOW'] === 'true' ? 'shadow' : 'enforce' })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
