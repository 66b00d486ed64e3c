// Reads the limit of each caller's plan from PostgreSQL and remembers it for ten seconds.
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin, { type PreferenceReader } from 'fastify-llm-quota'
import pg from 'pg'

const { JWT_SECRET: secret = '', DATABASE_URL: database } = process.env
if (secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
const app = Fastify({ logger: { level: 'warn' } })
// Without these time limits, lost connections would stay in the pool.
const pool = new pg.Pool({ connectionString: database, connectionTimeoutMillis: 1000, query_timeout: 1000 })
pool.on('error', ({ message }) => { app.log.warn(message) })
app.addHook('onClose', async () => { await pool.end() })

const lifetime = 10_000
const capacity = 10_000
const remembered = new Map<unknown, { limit: Promise<unknown>, readAt: number }>()

async function readLimit (subject: unknown): Promise<unknown> {
  const { rows } = await pool.query('SELECT per_minute FROM plans JOIN subscriptions USING (plan) WHERE subject = $1', [subject])
  return rows[0]?.per_minute
}

const preferences: PreferenceReader = {
  // If the database fails, and for callers without a plan, the configured limit applies. A failure is remembered too, so that a database
  // that hangs does not delay every request.
  get (key, { user }) {
    if (key !== 'rate-limit.per-minute') return undefined
    const subject = Object(user).sub
    const found = remembered.get(subject)
    if (found !== undefined && performance.now() - found.readAt < lifetime) return found.limit
    const limit = readLimit(subject)
    remembered.delete(subject)
    remembered.set(subject, { limit, readAt: performance.now() })
    if (remembered.size > capacity) remembered.delete(remembered.keys().next().value)
    return limit
  }
}

await app.register(fastifyJwt, { secret })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin, { preferences, perMinute: 3 })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
