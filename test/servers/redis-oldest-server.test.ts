// The oldest supported server is Redis 6.2. Newer servers report the version that introduced each command and each of its options.
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { serverVersion, startRedis } from '../support/redis-server.js'

const oldest = [6, 2, 0]

const { client } = await startRedis(t)

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
  const folder = 'lib/store/redis'
  const sources = readdirSync(folder).filter((name) => name.endsWith('.lua')).map((name) => readFileSync(`${folder}/${name}`, 'utf8'))
  const commands = [['EVAL'], ['EVALSHA'], ...sources.flatMap(commandsIn)]
  t.same([...new Set(commands.map(([name]) => name))].sort(), [
    'EVAL', 'EVALSHA', 'EXISTS', 'HDEL', 'HGET', 'HLEN', 'HMGET', 'HSCAN', 'HSET', 'INFO', 'PEXPIRE', 'PTTL', 'SADD', 'SMEMBERS', 'TIME', 'UNLINK'
  ])
  if (/v=6\.2\./.test(serverVersion())) return
  for (const command of new Set(commands.map((words) => words.join(' ')))) t.same(await unknownToOldest(command.split(' ')), [], command)
  t.same(await unknownToOldest(['PEXPIRE', 'NX']), ['NX'], 'an option that is new in Redis 7.0 is detected')
  t.same(await unknownToOldest(['EXPIRETIME']), ['EXPIRETIME'], 'a command that is new in Redis 7.0 is detected')
})
