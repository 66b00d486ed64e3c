// Shuts down gracefully: the server finishes its current requests, and then the Redis client is closed.
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import quotaPlugin, { InsuredQuotaStore } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'

const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
const client = new Redis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379', { maxRetriesPerRequest: 0, socketTimeout: 1000 })

const app = Fastify({ logger: { level: 'warn' } })
client.on('error', ({ message }) => { app.log.warn(message) })
// The hook runs after the last response has been sent. The client is closed even if the Redis server is not available.
app.addHook('onClose', async () => { await client.quit().catch(() => { client.disconnect() }) })
await app.register(fastifyJwt, { secret })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin, { store: new InsuredQuotaStore({ primary: new RedisQuotaStore({ client }) }) })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => { app.close() })
console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
