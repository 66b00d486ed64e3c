// What the README says about the peers that run in Fastify.
import fastifyRateLimit from '@fastify/rate-limit'
import Fastify, { type FastifyInstance } from 'fastify'
import { RateLimiterMemory, RateLimiterUnion } from 'rate-limiter-flexible'
import t from 'tap'
import quotaPlugin, { localAuthentication, MemoryQuotaStore } from '../../lib/index.js'

const authentication = ({ headers }: { headers: Record<string, unknown> }) => localAuthentication(String(headers['x-user']))

async function statusOf (app: FastifyInstance, user: string): Promise<number> {
  return (await app.inject({ method: 'POST', url: '/api/analyze', headers: { 'x-user': user } })).statusCode
}

t.test('a request that one limit rejects is counted by no other limit; RateLimiterUnion counts it in all of them', async (t) => {
  const app: FastifyInstance = Fastify()
  const day = { perDay: 5, operations: [{ method: 'POST', path: '/api/analyze' }] }
  await app.register(quotaPlugin, { perMinute: 1, quotas: { day }, authentication })
  app.post('/api/analyze', async () => 'ran')
  app.get('/standing', async (request) => await app.quotaStanding(request, 'day'))
  t.same([await statusOf(app, 'mira'), await statusOf(app, 'mira'), await statusOf(app, 'mira')], [200, 429, 429])
  t.equal((await app.inject({ url: '/standing', headers: { 'x-user': 'mira' } })).json().count, 1)

  const perMinute = new RateLimiterMemory({ keyPrefix: 'minute', points: 1, duration: 60 })
  const perDay = new RateLimiterMemory({ keyPrefix: 'day', points: 5, duration: 86_400 })
  const union = new RateLimiterUnion(perMinute, perDay)
  await union.consume('mira')
  await t.rejects(union.consume('mira'))
  await t.rejects(union.consume('mira'))
  t.equal((await perDay.get('mira'))?.consumedPoints, 3)
})

t.test('a flood of new callers resets no count; with @fastify/rate-limit it resets those of others', async (t) => {
  const limited: FastifyInstance = Fastify()
  await limited.register(quotaPlugin, { perMinute: 1, store: new MemoryQuotaStore({ maxTrackedCallers: 2 }), authentication })
  limited.post('/api/analyze', async () => 'ran')
  const peer: FastifyInstance = Fastify()
  await peer.register(fastifyRateLimit, { max: 1, cache: 2, keyGenerator: ({ headers }) => String(headers['x-user']) })
  peer.post('/api/analyze', async () => 'ran')
  for (const [app, expected] of [[limited, 429], [peer, 200]] as const) {
    for (const user of ['mira', 'one', 'two', 'three']) await statusOf(app, user)
    t.equal(await statusOf(app, 'mira'), expected)
  }
})
