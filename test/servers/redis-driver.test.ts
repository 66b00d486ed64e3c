// One call of the Redis driver: the checks of every driver.
import t from 'tap'
import { adaptClient } from '../../lib/store/redis/adapt-client.js'
import type { QuotaRedisClient } from '../../lib/store/redis/clients.js'
import { Keys } from '../../lib/store/redis/keys.js'
import { RedisDriver } from '../../lib/store/redis/redis-driver.js'
import { demand } from '../support/demands.js'
import { asking, callOf, checkDriver, send } from '../support/driver-checks.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
const keys = new Keys('quota:')

/** Returns what follows the key of no counters, of all keys that begin with it. */
async function endsOf (kind: 'counters' | 'holders'): Promise<string[]> {
  const start = keys[kind]('')
  const found = await client.keys(`${start}*`)
  return found.map((key) => key.slice(start.length))
}

checkDriver({
  async createDriver (cap = Infinity) {
    await client.flushall()
    return new RedisDriver(adaptClient(client), keys, cap)
  },
  async callers () {
    const names = await endsOf('counters')
    const ofWindows = names.map(async (counters) => {
      const rows = await client.hkeys(keys.counters(counters))
      return rows.map((row) => `${counters} ${row}`)
    })
    const ofPlaces = (await endsOf('holders')).filter((name) => name.includes(' '))
    return [...(await Promise.all(ofWindows)).flat(), ...ofPlaces].sort()
  },
  async losePlaces () {
    for (const counters of await endsOf('holders')) await client.del(keys.holders(counters))
  }
})

t.test('each call has a key, so that a cluster client sends it to the slot of all', async (t) => {
  const adapted = adaptClient(client)
  const sent: (readonly string[])[] = []
  const watched: QuotaRedisClient = {
    evaluateDigest: (digest, keys, parameters) => {
      sent.push(keys)
      return adapted.evaluateDigest(digest, keys, parameters)
    },
    evaluateSource: (source, keys, parameters) => {
      sent.push(keys)
      return adapted.evaluateSource(source, keys, parameters)
    }
  }
  const driver = new RedisDriver(watched, keys, Infinity)
  for (const call of [callOf(), asking([demand('alice')])]) await send(driver, call)
  t.same(sent, [['quota:{quota:}v8:'], ['quota:{quota:}v8:windows:default']])
})
