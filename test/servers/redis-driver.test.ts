// One call of the Redis driver: the checks of every driver.
import t from 'tap'
import { adaptClient } from '../../lib/store/redis/adapt-client.js'
import { Keys } from '../../lib/store/redis/keys.js'
import { RedisDriver } from '../../lib/store/redis/redis-driver.js'
import { checkDriver } from '../support/driver-checks.js'
import { startRedis } from '../support/redis-server.js'

const { client } = await startRedis(t)
const keys = new Keys('quota:')

/** Returns the rows of all hashes of a kind, each with the counters before it. */
async function rowsOf (kind: 'counters' | 'places'): Promise<string[]> {
  const start = keys[kind]('')
  const found = await client.keys(`${start}*`)
  const rows = found.map(async (key) => {
    const names = await client.hkeys(key)
    return names.map((row) => `${key.slice(start.length)} ${row}`)
  })
  return (await Promise.all(rows)).flat()
}

checkDriver({
  async createDriver (cap = Infinity) {
    await client.flushall()
    return new RedisDriver(adaptClient(client), keys, cap)
  },
  async callers () {
    return [...(await rowsOf('counters')), ...(await rowsOf('places'))].sort()
  },
  async losePlaces () {
    await client.del(await client.keys(keys.places('*')))
  }
})
