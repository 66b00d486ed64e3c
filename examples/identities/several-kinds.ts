// Identifies several kinds of callers and accepts guests. The option `authentication` returns the caller that an earlier hook found.
import { createHash, timingSafeEqual } from 'node:crypto'
import fastifyBasicAuth from '@fastify/basic-auth'
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin, { anonymousAuthentication, type Authentication, localAuthentication, tokenAuthentication } from 'fastify-llm-quota'

declare module 'fastify' {
  interface FastifyRequest { caller: Authentication | null }
}

const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')

// A long random key does not need a slow hash; a password does.
const digest = (key: string) => createHash('sha256').update(key).digest()
const machines = new Map([['nightly-report', digest('a long random key of the nightly report')]])

const app = Fastify()
app.decorateRequest('caller', null)
await app.register(fastifyJwt, { secret, verify: { algorithms: ['HS256'], requiredClaims: ['iss', 'sub', 'exp'] } })
await app.register(fastifyBasicAuth, {
  async validate (username, password, request) {
    const kept = machines.get(username)
    if (kept === undefined || !timingSafeEqual(kept, digest(password))) throw new Error('wrong credentials')
    request.caller = localAuthentication(username)
  }
})
app.addHook('onRequest', async (request) => {
  const { authorization } = request.headers
  if (authorization === undefined) request.caller = anonymousAuthentication()
  else if (authorization.startsWith('Bearer ')) request.caller = tokenAuthentication(await request.jwtVerify())
})
app.addHook('onRequest', (request, reply, done) => {
  if (request.caller === null) Reflect.apply(app.basicAuth, app, [request, reply, done])
  else done()
})
await app.register(quotaPlugin, { authentication: ({ caller }) => caller })

app.get('/', async () => ({ welcome: 'guests too' }))
app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
