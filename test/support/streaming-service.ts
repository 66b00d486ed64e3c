// A service in a process of its own, with a quota of requests in flight on Redis. The header `x-how` says what its handler does.
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import Fastify, { type FastifyReply } from 'fastify'
import { Redis } from 'ioredis'
import quotaPlugin from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { fromHeader } from './quota-host.js'
import { listen } from './raw-socket.js'

const [, , redisPort, inFlight] = process.argv
const handlers: Record<string, (reply: FastifyReply) => unknown> = {
  returns: async () => 'ran',
  waits: async () => { await pause(50); return 'ran' },
  throws: async () => { throw new Error('of the handler') },
  streams: async (reply) => reply.send(endless()),
  hijacks: (reply) => { reply.hijack(); endless().on('error', () => {}).pipe(reply.raw) }
}

function endless (): Readable {
  return new Readable({ read () { setTimeout(() => { this.push('data: x\n\n') }, 5) } })
}

const client = new Redis({ port: Number(redisPort), maxRetriesPerRequest: 0 })
const app = Fastify({ forceCloseConnections: true })
await app.register(quotaPlugin, { store: new RedisQuotaStore({ client }), operations: [], authentication: fromHeader, quotas: { streams: { inFlight: Number(inFlight) } } })
app.post('/run', { config: { quota: 'streams' } }, (request, reply) => handlers[String(request.headers['x-how'])]?.(reply))
process.on('disconnect', () => { process.exit() })
process.send?.(await listen(app))
