// Prints how many requests a caller gains in a window in which its counter is lost or goes back, with a real server for each event.
import { InsuredQuotaStore, type QuotaStore } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { isSynchronized, RedisServer } from '../../test/support/redis-server.js'

const limit = 10
const [before, after] = [4, 3]

/** Takes the primary, and what admits requests there. Returns the server that is used after the event. */
type Event = (primary: RedisServer, admit: (requests: number) => Promise<void>) => Promise<RedisServer>

const events: Record<string, Event> = {
  [`failover to a replica without the last ${after} requests`]: async (primary, admit) => {
    const replica = await RedisServer.start('--replicaof', `127.0.0.1 ${primary.port}`)
    await replica.until(isSynchronized)
    await admit(before)
    await primary.until(async (client) => await client.wait(1, 1_000) === 1)
    await replica.until(async (client) => await client.replicaof('NO', 'ONE') === 'OK')
    await admit(after)
    await primary.kill()
    return replica
  },
  [`restart from a snapshot without the last ${after} requests`]: async (primary, admit) => {
    await admit(before)
    await primary.until(async (client) => await client.save() === 'OK')
    await admit(after)
    await primary.kill()
    await primary.start()
    return primary
  },
  'restart without data': async (primary, admit) => {
    await admit(before + after)
    await primary.kill()
    await primary.start()
    return primary
  }
}

console.log(`\nA caller with a limit of ${limit} sends ${before} requests, ${after} more, and then ${3 * limit}:\n`)
console.log('| event | admitted in the window | gained |\n|---|---:|---:|')
for (const [name, event] of Object.entries(events)) {
  const primary = await RedisServer.start()
  let admitted = 0
  const admitOn = async (server: RedisServer, requests: number): Promise<void> => {
    const client = server.client()
    admitted += await admittedOf(new RedisQuotaStore({ client, rememberRefusals: false }), requests)
    client.disconnect()
  }
  const later = await event(primary, (requests) => admitOn(primary, requests))
  await admitOn(later, 3 * limit)
  console.log(`| ${name} | ${admitted} | ${admitted - limit} |`)
  await Promise.all([primary.stop(), later.stop()])
}

const server = await RedisServer.start()
const clients = [server.client(), server.client()]
const stores = clients.map((client) => new InsuredQuotaStore({ primary: new RedisQuotaStore({ client, rememberRefusals: false }) }))
let admitted = 0
for (const store of stores) admitted += await admittedOf(store, limit / 2)
await server.kill()
for (const store of stores) admitted += await admittedOf(store, 3 * limit)
console.log(`| the end of the server, with insured stores on ${stores.length} instances | ${admitted} | ${admitted - limit} |`)
for (const client of clients) client.disconnect()
await server.stop()

async function admittedOf (store: QuotaStore, requests: number): Promise<number> {
  let admitted = 0
  for (let request = 0; request < requests; request++) if ((await store.acquire('a caller', limit)).admitted) admitted += 1
  return admitted
}
