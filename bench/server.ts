// A service with one of the limiters, in memory, in a process of its own.
import Fastify, { type FastifyInstance } from 'fastify'
import { limiters, prepare } from './limiters.js'

const [name = '', limit = ''] = process.argv.slice(2)
const app: FastifyInstance = Fastify()
await prepare(app)
await limiters[name]?.(app, Number(limit), {})
process.send?.(await app.listen({ port: 0, host: '127.0.0.1' }))
