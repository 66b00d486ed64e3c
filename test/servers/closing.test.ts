// The program of docs/recipes.md that closes its Redis client, run unchanged.
import { createSecretKey } from 'node:crypto'
import { SignJWT } from 'jose'
import t from 'tap'
import { type Example, startExample } from '../support/example.js'
import { RedisServer } from '../support/redis-server.js'

const secret = 'a secret of thirty-two bytes or more'

async function statuses ({ address }: Example, times: number): Promise<number[]> {
  const token = await new SignJWT({ iss: 'https://identity.example', sub: 'mira' }).setProtectedHeader({ alg: 'HS256' }).sign(createSecretKey(secret, 'utf8'))
  const found = []
  for (let request = 0; request < times; request++) {
    found.push((await fetch(`${address}/api/analyze`, { method: 'POST', headers: { authorization: `Bearer ${token}`, connection: 'close' } })).status)
  }
  return found
}

t.test('the service closes its Redis client when it stops', async (t) => {
  const server = await RedisServer.start()
  t.teardown(() => server.stop())
  const start = () => startExample('recipes/closing.js', { JWT_SECRET: secret, REDIS_URL: server.url, SERVICE_RATE_LIMIT_PER_MINUTE: '2' })
  const service = await start()
  t.same(await statuses(service, 3), [200, 200, 429])
  t.equal(await service.stop(), 0)

  const another = await start()
  t.same(await statuses(another, 1), [429], 'the counts are on the server')
  await server.kill()
  t.equal(await another.stop(), 0, 'the service also stops while the server is not running')
})
