// A service with one of the limiters, in a process of its own: server.js <name> <limit> [<url>],
// with the URL of the Redis or PostgreSQL server on which it counts; otherwise in memory. A message
// makes it collect its garbage, if Node.js exposes this.
import Fastify, { type FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import pg from 'pg'
import { limiters, prepare, type Place } from './limiters.js'

const [name = '', limit = '', url = ''] = process.argv.slice(2)
const app: FastifyInstance = Fastify()
await prepare(app)
await limiters[name]?.(app, Number(limit), placeAt(url))
process.on('message', () => {
  globalThis.gc?.()
  process.send?.('collected')
})
process.send?.(await app.listen({ port: 0, host: '127.0.0.1' }))

function placeAt (url: string): Place {
  if (url.startsWith('redis:')) return { redis: new Redis(url, { maxRetriesPerRequest: 0 }) }
  if (url.startsWith('postgres:')) {
    return { pool: new pg.Pool({ connectionString: url, max: 10 }) }
  }
  return {}
}
