// The program of docs/recipes.md that closes its Redis client, run unchanged.
import t from 'tap'
import { hs256, secret, statuses } from '../support/credentials.js'
import { startExample } from '../support/example.js'
import { startRedis } from '../support/redis-server.js'

t.test('the service closes its Redis client when it stops', async (t) => {
  const { server } = await startRedis(t)
  const start = () => startExample('recipes/closing.js', { JWT_SECRET: secret, REDIS_URL: server.url, SERVICE_RATE_LIMIT_PER_MINUTE: '2' })
  const headers = { authorization: `Bearer ${hs256()}`, connection: 'close' }
  const service = await start()
  t.same(await statuses(3, () => fetch(`${service.address}/api/analyze`, { method: 'POST', headers })), [200, 200, 429])
  t.equal(await service.stop(), 0)

  const another = await start()
  t.same(await statuses(1, () => fetch(`${another.address}/api/analyze`, { method: 'POST', headers })), [429], 'the counts are on the server')
  await server.kill()
  t.equal(await another.stop(), 0, 'the service also stops while the server is not running')
})
