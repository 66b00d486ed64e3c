// Sessions of the example service on several instances.
import t from 'tap'
import { startExample } from '../support/example.js'
import { RedisServer } from '../support/redis-server.js'
import { Visitor } from '../support/visitor.js'

const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"businessText":"Invoices are late."}' }

async function statuses (times: number, ask: () => Promise<{ status: number }>): Promise<number[]> {
  const answers = []
  for (let request = 0; request < times; request++) answers.push((await ask()).status)
  return answers
}

t.test('a session is valid on every instance that has the same secret and a shared store', async (t) => {
  const server = await RedisServer.start()
  const environment = { REDIS_URL: server.url, JWT_SECRET: 'a secret that both instances know of', SERVICE_RATE_LIMIT_PER_MINUTE: '3' }
  const one = await startExample('service/main.js', environment)
  const two = await startExample('service/main.js', environment)
  t.teardown(async () => {
    await Promise.all([one.stop(), two.stop()])
    await server.stop()
  })
  const visitor = new Visitor(one.address)
  await visitor.signInWithOpenId('Mira Lindqvist')
  const elsewhere = new Visitor(two.address)
  elsewhere.cookies = visitor.cookies
  t.same([
    ...await statuses(2, () => visitor.send('/api/analyze', post)),
    ...await statuses(2, () => elsewhere.send('/api/analyze', post)),
    ...await statuses(1, () => visitor.send('/api/analyze', post))
  ], [200, 200, 200, 429, 429])
})
