// Prints for how long the server does not answer when the counters of a million callers expire, with each setting of lazyfree-lazy-expire.
import { cpus, loadavg } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { RedisServer } from '../../test/support/redis-server.js'

const callers = 1_000_000

console.log(`\nLoad of the machine ${loadavg()[0]?.toFixed(1)} on ${cpus().length} processors\n\n| lazyfree-lazy-expire | expiry of ${callers.toLocaleString('en')} rows, ms |\n|---|---:|`)
for (const setting of ['no', 'yes']) {
  const server = await RedisServer.start('--lazyfree-lazy-expire', setting, '--latency-monitor-threshold', '1')
  const client = server.client()
  await client.eval(`
    for row = 1, ARGV[1] do redis.call('HSET', KEYS[1], string.format('%064d', row), string.rep('x', 24)) end
    redis.call('PEXPIRE', KEYS[1], 100)`, 1, 'counters', callers)
  while (Number(await client.dbsize()) > 0) await pause(20)
  const events = await client.call('LATENCY', 'LATEST')
  // Events shorter than a millisecond are not listed.
  const [, , , longest = '< 1'] = (Array.isArray(events) ? events : []).find(([name]) => name === 'expire-del') ?? []
  console.log(`| ${setting} | ${longest} |`)
  client.disconnect()
  await server.stop()
}
