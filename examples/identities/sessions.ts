// Identifies callers by local accounts with a session. Passwords are stored as scrypt hashes, and the session in an encrypted cookie.
// Requests forged by another site get a 403 and are not counted.
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import fastifyCsrfProtection from '@fastify/csrf-protection'
import fastifySecureSession from '@fastify/secure-session'
import Fastify from 'fastify'
import quotaPlugin, { localAuthentication } from 'fastify-llm-quota'

declare module '@fastify/secure-session' {
  interface SessionData { username: string }
}

declare module 'fastify' {
  interface FastifyRequest { user: unknown }
}

const hash = promisify<string, Buffer, number, Buffer>(scrypt)

// In a real service, load the accounts from a database.
const salt = randomBytes(16)
const accounts = new Map([['alice', await hash('wonderland', salt, 32)]])

const app = Fastify()
await app.register(fastifySecureSession, { key: randomBytes(32), cookie: { path: '/', httpOnly: true, sameSite: 'lax' } })
await app.register(fastifyCsrfProtection, { sessionPlugin: '@fastify/secure-session' })
app.decorateRequest('user', null)
app.addHook('onRequest', async (request) => {
  const username = request.session.get('username')
  if (username !== undefined) request.user = localAuthentication(username)
})
app.addHook('preValidation', (request, reply, done) => {
  if (request.method === 'POST') app.csrfProtection(request, reply, done)
  else done()
})
await app.register(quotaPlugin)

app.get('/token', { exposeHeadRoute: false }, async (_request, reply) => ({ token: reply.generateCsrf() }))

app.post<{ Body: { username: string, password: string } }>('/sign-in', async (request, reply) => {
  const given = await hash(String(request.body.password), salt, 32)
  const kept = accounts.get(request.body.username)
  if (!timingSafeEqual(given, kept ?? randomBytes(32))) return reply.code(401).send({ error: 'The user name or the password is wrong.', status: 401 })
  request.session.regenerate()
  request.session.set('username', request.body.username)
  return { signedIn: true }
})

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
