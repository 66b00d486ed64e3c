// The tenants of docs/recipes/callers-and-plans.md, on a real Redis.
import t from 'tap'
import { hs256, statuses } from '../support/credentials.js'
import { Programs } from '../support/programs.js'
import { RedisServer } from '../support/redis-server.js'

t.test('tenants with one Redis have limits and counters of their own', async (t) => {
  const server = await RedisServer.start()
  t.teardown(() => {
    server.remove()
  })
  const address = await Programs.start(t).run('recipes/tenants.ts', {
    REDIS_URL: `redis://127.0.0.1:${server.port}`
  })
  // The secret in service.ts of docs/recipes/README.md.
  const authorization = `Bearer ${hs256({ sub: 'mira' }, 'a secret of at least 32 characters')}`
  const ask = async (tenant: string) =>
    await fetch(`${address}/${tenant}/chat`, { method: 'POST', headers: { authorization } })
  t.same(await statuses(3, () => ask('acme')), [200, 200, 429])
  t.same(await statuses(4, () => ask('globex')), [200, 200, 200, 429])
})
