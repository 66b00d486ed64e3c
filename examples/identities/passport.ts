// Identifies callers with a strategy of @fastify/passport. Applications have different types of request.user, so the option
// `authentication` converts it.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { Authenticator, Strategy } from '@fastify/passport'
import fastifySecureSession from '@fastify/secure-session'
import Fastify, { type FastifyRequest } from 'fastify'
import quotaPlugin, { localAuthentication } from 'fastify-llm-quota'

// You can use any strategy. This one checks a key in a header.
const digest = (key: string) => createHash('sha256').update(key).digest()
const keys = new Map([['alice', digest('the key of alice')]])

class KeyStrategy extends Strategy {
  override authenticate (request: FastifyRequest): void {
    const key = digest(String(request.headers['x-key'] ?? ''))
    const [username] = [...keys].find(([, kept]) => timingSafeEqual(kept, key)) ?? []
    if (username === undefined) this.fail()
    else this.success({ username })
  }
}

const app = Fastify()
const passport = new Authenticator()
await app.register(fastifySecureSession, { key: randomBytes(32), cookie: { path: '/', httpOnly: true, sameSite: 'lax' } })
await app.register(passport.initialize())
await app.register(passport.secureSession())
passport.use('key', new KeyStrategy('key'))
passport.registerUserSerializer(async (user: { username: string }) => user.username)
passport.registerUserDeserializer(async (username: string) => keys.has(username) ? { username } : null)

await app.register(quotaPlugin, {
  authentication ({ user }: { user?: unknown }) {
    const { username } = Object(user)
    return username === undefined ? null : localAuthentication(username)
  }
})

app.post('/sign-in', { preValidation: passport.authenticate('key') }, async () => ({ signedIn: true }))

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
