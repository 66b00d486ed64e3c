// One call of the Redis driver: the checks of every driver.
import t from 'tap'
import { adaptClient } from '../../lib/store/redis/clients.js'
import { RedisDriver } from '../../lib/store/redis/redis-driver.js'
import { checkDriver } from '../support/driver-checks.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
const shard = 'quota:{0}'
const placesKeys = `${shard}:places:*`

checkDriver({
  async createDriver (callers) {
    await client.flushall()
    return new RedisDriver(adaptClient(client), shard, callers)
  },
  async callers () {
    const keys = await client.keys(`${shard}:windows:*`)
    const ofWindows = keys.map(async (key) =>
      (await client.hkeys(key)).map((caller) => `${key.replace(`${shard}:windows:`, '')} ${caller}`)
    )
    const ofPlaces = (await client.keys(placesKeys)).map((key) => key.replace(/^.*:places:/, ''))
    return [...(await Promise.all(ofWindows)).flat(), ...ofPlaces].sort()
  },
  async losePlaces () {
    for (const key of await client.keys(placesKeys)) await client.del(key)
  }
})
