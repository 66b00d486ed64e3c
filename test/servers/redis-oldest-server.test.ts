// The oldest supported server is Redis 6.2. Newer servers report the version that introduced each command and each of its options.
import t from 'tap'
import { RedisQuotaStore, type QuotaRedisClient } from '../../lib/redis.js'
import { adaptIoredis } from '../../lib/store/redis/clients/ioredis.js'
import { serverVersion, startRedis } from '../support/redis-server.js'

const oldest = [6, 2, 0]

const { client } = await startRedis(t)

/** The source of each script that stores send, with the server's clock and with a clock of their own. */
async function scripts (): Promise<string[]> {
  const sources: string[] = []
  const adapted = adaptIoredis(client)
  const recording: QuotaRedisClient = {
    ...adapted,
    evaluateSource (source, key, parameters) {
      sources.push(source)
      return adapted.evaluateSource(source, key, parameters)
    }
  }
  for (const options of [{}, { clock: () => 0 }]) {
    const store = new RedisQuotaStore({ client: recording, keyPrefix: `${Object.keys(options)}:`, ...options })
    await store.acquire('alice', 5)
    await store.peek('alice')
    await store.acquire('alice', 5, 2)
    await store.inspect()
    await store.forget('alice')
    await store.enter('alice', 1)
  }
  return sources
}

/** Returns the commands in a script, each with the quoted words that follow it. */
function commandsIn (source: string): string[][] {
  return source.split('\n').flatMap((line) => line.split(/call\((?=')/).slice(1)).map((call) => call.match(/'[A-Z]+'/g)?.map((word) => word.slice(1, -1)) ?? [])
}

function isNewer (version: unknown): boolean {
  const numbers = String(version).split('.').map(Number)
  const place = oldest.findIndex((number, index) => number !== numbers[index])
  return place >= 0 && (numbers[place] ?? 0) > (oldest[place] ?? 0)
}

// With RESP2, the reply alternates between names and values.
function toMap (reply: unknown): Map<string, unknown> {
  const entries = Array.isArray(reply) ? reply : []
  return new Map(entries.flatMap((name, index) => index % 2 === 0 ? [[String(name), entries[index + 1]]] : []))
}

/** Returns the tokens of arguments that are newer than the oldest server, or that belong to such an argument. */
function newerTokens (replies: unknown, belongsToNewer = false): string[] {
  return (Array.isArray(replies) ? replies : []).flatMap((reply) => {
    const described = toMap(reply)
    const newer = belongsToNewer || isNewer(described.get('since') ?? '0')
    return [...(newer && described.has('token') ? [String(described.get('token'))] : []), ...newerTokens(described.get('arguments'), newer)]
  })
}

/** Returns the parts of a command that the oldest server does not support. */
async function unknownToOldest ([name = '', ...words]: readonly string[]): Promise<string[]> {
  const described = toMap(toMap(await client.call('COMMAND', 'DOCS', name)).get(name.toLowerCase()))
  t.ok(described.has('since'), `the server describes ${name}`)
  const newer = newerTokens(described.get('arguments'))
  return [...(isNewer(described.get('since')) ? [name] : []), ...words.filter((word) => newer.includes(word))]
}

t.test('the oldest supported server has each command and each option that the scripts and the clients use', async (t) => {
  const sources = await scripts()
  // With either clock: acquire without and with costs, and places. The others do not depend on the clock.
  t.equal(new Set(sources).size, 9)
  const commands = [['EVAL'], ['EVALSHA'], ['UNLINK'], ...sources.flatMap(commandsIn)]
  t.same([...new Set(commands.map(([name]) => name))].sort(),
    ['EVAL', 'EVALSHA', 'EXISTS', 'HDEL', 'HGET', 'HLEN', 'HMGET', 'HSCAN', 'HSET', 'INFO', 'PEXPIRE', 'PTTL', 'TIME', 'UNLINK'])
  if (/v=6\.2\./.test(serverVersion())) return
  for (const command of new Set(commands.map((words) => words.join(' ')))) t.same(await unknownToOldest(command.split(' ')), [], command)
  t.same(await unknownToOldest(['PEXPIRE', 'NX']), ['NX'], 'an option that is new in Redis 7.0 is detected')
  t.same(await unknownToOldest(['EXPIRETIME']), ['EXPIRETIME'], 'a command that is new in Redis 7.0 is detected')
})
