// Identifies callers by API keys, whose digests are in PostgreSQL. If the database fails or hangs, the response is a 503 and not a 401.
import { createHash } from 'node:crypto'
import Fastify from 'fastify'
import quotaPlugin, { localAuthentication, type AuthenticationReader } from 'fastify-llm-quota'
import pg from 'pg'

const app = Fastify({ logger: { level: 'warn' } })
// The quota sets no time limit for `authentication`, so the pool does.
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], connectionTimeoutMillis: 1000, query_timeout: 1000 })
pool.on('error', ({ message }) => { app.log.warn(message) })
app.addHook('onClose', async () => { await pool.end() })

async function ownerOf (key: string): Promise<string | undefined> {
  // A long random key does not need a slow hash; a password does.
  const { rows } = await pool.query('SELECT owner FROM api_keys WHERE digest = $1', [createHash('sha256').update(key).digest('hex')])
  return rows[0]?.owner
}

const authentication: AuthenticationReader = async ({ headers }) => {
  const [, key] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? []
  if (key === undefined) return null
  const owner = await ownerOf(key).catch((error: unknown) => {
    throw Object.assign(Object(error), { statusCode: 503 })
  })
  return owner === undefined ? null : localAuthentication(owner)
}

await app.register(quotaPlugin, { authentication, perMinute: 3 })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
