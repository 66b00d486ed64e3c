// docs/shared-server.md, "Permissions": a user with the documented commands can do all that the
// store does, and each of them is needed.
import { readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import t from 'tap'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { VirtualClock } from '../../lib/testing.js'
import { required } from '../../lib/required.js'
import { acquireOne, demand, estimate, place } from '../support/demands.js'
import { startRedis } from '../support/redis-server.js'

const page = readFileSync('docs/shared-server.md', 'utf8')
const [, list] = required(/^ACL SETUSER quota (.+)$/m.exec(page), 'the documented command')
const rules = required(list, 'its rules').split(' ')
const alice = String(callerKey(localAuthentication('alice')))
// What the table adds for this client.
const added = ['+info']

const { server, client: administrator } = await startRedis(t)
const client = new Redis({
  port: server.port,
  maxRetriesPerRequest: 0,
  username: 'quota',
  password: 'password',
  lazyConnect: true
})
t.teardown(() => {
  client.disconnect()
})

async function permit (permitted: readonly string[]): Promise<void> {
  await administrator.call('ACL', 'SETUSER', 'quota', 'reset', ...permitted, ...added)
}

/** Calls everything, so that each script uses each of its commands. */
async function useAll (): Promise<void> {
  await administrator.flushall()
  await administrator.script('FLUSH')
  const clock = new VirtualClock()
  const create = () =>
    new RedisQuotaStore({
      client,
      clock: clock.now,
      maxTrackedCallers: 1,
      rememberRejections: false
    })
  const store = create()
  for (const more of [{}, estimate(2), place()]) {
    const { counters } = demand('alice', more)
    // The second caller is counted in the overflow counter.
    for (const caller of ['alice', 'bob']) {
      const { receipt } = await acquireOne(store, caller, more)
      await acquireOne(store, caller, more)
      if (more.window === null) {
        // In one call.
        const freed = store.settle(receipt, { count: 1, held: 1 })
        await Promise.all([freed, acquireOne(store, caller, more)])
      } else await store.settle(receipt, { count: 1, held: 0 }, 'once')
      await store.peek(demand(caller, more))
    }
    await store.list(counters)
    await store.inspect(counters)
  }
  // Counters are dead, and places have ended: a store that does not hold them does not renew them.
  clock.advance(300_000)
  const later = create()
  await acquireOne(new RedisQuotaStore({ client }), 'alice')
  await acquireOne(later, 'alice')
  await acquireOne(later, 'bob', place())
  await store.forget('default', alice)
  await store.clearCounters()
}

t.test('the documented permissions are enough', async (t) => {
  await permit(rules)
  await client.connect()
  await t.resolves(useAll())
})

for (const command of rules.filter((rule) => rule.startsWith('+'))) {
  t.test(`a user without ${command} is refused`, async (t) => {
    await permit(rules.filter((rule) => rule !== command))
    await t.rejects(useAll(), /NOPERM|ACL failure|can't run this command/)
  })
}
