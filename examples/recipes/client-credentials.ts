// Identifies services by tokens of the OAuth client-credentials grant that have a client_id and no subject.
import fastifyJwt from '@fastify/jwt'
import Fastify, { type FastifyRequest } from 'fastify'
import quotaPlugin, { tokenAuthentication } from 'fastify-llm-quota'

declare module '@fastify/jwt' {
  interface FastifyJWT { user: unknown }
}

const issuer = 'https://identity.example'

// The issuer differs for clients, so that a client and a user never share a counter, even if the client's id is the subject of a user.
function authentication ({ user }: FastifyRequest) {
  const { sub, client_id: client } = Object(user)
  return tokenAuthentication(sub === undefined ? { iss: `${issuer}#clients`, sub: client } : user)
}

const app = Fastify()
const secret = process.env['JWT_SECRET']
if (secret === undefined || secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')
await app.register(fastifyJwt, { secret, verify: { allowedIss: issuer } })
app.addHook('onRequest', async (request) => { await request.jwtVerify() })
await app.register(quotaPlugin, { authentication, perMinute: 3 })

app.post('/api/analyze', async () => ({ answer: 'from your model' }))

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
