// Runs one server in a separate process, which reports its CPU time on request.
import fastifyJwt from '@fastify/jwt'
import Fastify, { type FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import { pluginCount } from './plugin-count.js'
import { servers, type Scenario } from './servers.js'

const issuer = 'https://identity.example/realms/taxonomy'
const secret = 'a secret for the benchmark alone, thirty-two bytes or more'

const [name = '', described = '{}'] = process.argv.slice(2)
const { limit, asynchronousPreference, asynchronousStore, asynchronousAuthentication, decisionsSubscribed, tokens, redisPort, autoPipelining, plugins } = JSON.parse(described)

const app: FastifyInstance = Fastify()
if (tokens === true) {
  await app.register(fastifyJwt, { secret })
  app.addHook('onRequest', async (request) => { await request.jwtVerify() })
} else {
  app.decorateRequest('user')
  app.addHook('onRequest', (request, _reply, done) => {
    request.user = { iss: issuer, sub: request.headers['x-subject'] }
    done()
  })
}
for (let registered = 0; registered < (plugins ?? pluginCount); registered++) await app.register(async () => {})
const redis = typeof redisPort === 'number' ? new Redis({ port: redisPort, enableAutoPipelining: autoPipelining === true }) : undefined
const scenario: Scenario = {
  limit,
  asynchronousPreference: asynchronousPreference === true,
  asynchronousStore: asynchronousStore === true,
  asynchronousAuthentication: asynchronousAuthentication === true,
  decisionsSubscribed: decisionsSubscribed === true,
  redis
}
await servers[name]?.(app, scenario)
const address = await app.listen({ port: 0, host: '127.0.0.1' })

process.on('message', (question) => {
  if (question === 'end') process.exit()
  if (question === 'heap') globalThis.gc?.()
  const { user, system } = process.cpuUsage()
  process.send?.({ cpu: user + system, heap: process.memoryUsage().heapUsed })
})
process.send?.({ address, token: tokens === true ? app.jwt.sign({ iss: issuer, sub: 'alice' }) : undefined })
