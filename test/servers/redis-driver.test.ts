// One call of the Redis driver: the checks of every driver.
import t from 'tap'
import { adaptClient } from '../../lib/store/redis/adapt-client.js'
import type { QuotaRedisClient } from '../../lib/store/redis/clients.js'
import { Keys } from '../../lib/store/redis/keys.js'
import { RedisDriver } from '../../lib/store/redis/redis-driver.js'
import type { Settlement } from '../../lib/store/shared/driver.js'
import { demand } from '../support/demands.js'
import {
  asking,
  callOf,
  checkDriver,
  decideOne,
  send,
  settlementOf
} from '../support/driver-checks.js'
import { matchExactly } from '../support/match-exactly.js'
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
  t.same(sent, [['quota:{quota:}v9:'], ['quota:{quota:}v9:windows:default']])
})

t.test('a call that a client sends twice, or that is late, settles nothing more', async (t) => {
  await client.flushall()
  const driver = new RedisDriver(adaptClient(client), keys, Infinity)
  const estimate = demand('alice', { limit: 100, most: 60, isEstimate: true })
  const { windowId, period } = await decideOne(driver, asking([estimate]))
  const settlement = settlementOf(windowId, 10, new Map([[period, 10]]))
  const late = callOf({ settlements: [settlement] })
  const twice = callOf({ settlements: [settlement], standings: [estimate] })
  const ofAnother = { ...twice, process: 'another' }
  for (const [what, call, count] of [
    ['the first time', twice, 50],
    ['the second time', twice, 50],
    ['an earlier call of the process', { ...late, standings: [estimate] }, 50],
    ['the third time', twice, 50],
    ['a call of another process', ofAnother, 40],
    ['the same call again', ofAnother, 40],
    ['a later call', callOf({ settlements: [settlement], standings: [estimate] }), 30]
  ] as const) {
    // So the driver sends the call by its digest, which runs nothing, and then as source.
    await client.script('FLUSH')
    const { standings } = await send(driver, call)
    matchExactly(t, standings, [{ count, held: count }], what)
  }
})

t.test('the reply to a call that is sent twice says again what was applied once', async (t) => {
  await client.flushall()
  const driver = new RedisDriver(adaptClient(client), keys, Infinity)
  const estimate = demand('alice', { limit: 100, most: 60, isEstimate: true })
  const { windowId } = await decideOne(driver, asking([estimate]))
  const named = (once: string): Settlement => ({ ...settlementOf(windowId, 10, new Map()), once })
  const call = callOf({
    settlements: [named('one'), named('one'), named('two')],
    standings: [estimate]
  })
  for (const time of ['first', 'second', 'third']) {
    const { applied, standings } = await send(driver, call)
    t.same(applied, [true, false, true], time)
    matchExactly(t, standings, [{ count: 40 }])
  }
  const { applied } = await send(driver, callOf({ settlements: [named('one'), named('three')] }))
  t.same(applied, [false, true], 'another call')
})
