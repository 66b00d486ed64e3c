// A value that a host wrote to request.quota was treated as a decision, and the request was not
// counted.
import Fastify, { type FastifyRequest } from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { asAlice, createServer } from '../support/server.js'

const options = { perMinute: 2, authentication: asAlice }
const write = (request: FastifyRequest, value: unknown) => Reflect.set(request, 'quota', value)

t.test(
  'a value that the host writes to request.quota has no effect, before and after the decision',
  async (t) => {
    for (const value of [{ tenant: 'x' }, 7, 'admitted', null, { outcome: 'admitted' }]) {
      const read: unknown[] = []
      const authentication = async (request: FastifyRequest) => {
        await new Promise(setImmediate)
        read.push([request.quota.decisions, request.quota.granted('requests')])
        return asAlice()
      }
      const handler = async (request: FastifyRequest) => {
        write(request, value)
        const [decision] = request.quota.decisions
        return Reflect.set(Object(decision?.operation), 'path', '/other') || decision
      }
      const { app, ask, statuses } = await createServer({ ...options, authentication, handler })
      app.addHook('onRequest', async (request) => {
        write(request, value)
      })
      matchExactly(t, (await ask()).json(), {
        outcome: 'admitted',
        count: 1,
        operation: { path: '/run' }
      })
      t.same(read, [[[], null]])
      t.same(await statuses(2), [200, 429])
    }
  }
)

t.test(
  'a request decorator quota in a scope that was created before the plugin does not affect ' +
    'the decision',
  async (t) => {
    const app = Fastify()
    await app.register(async (scope) => {
      scope.decorateRequest('quota', JSON.parse('7'))
      scope.after(() => {
        scope.post('/api/analyze', async (request) => ({ own: request.quota }))
      })
    })
    await app.register(quotaPlugin, options)
    const received = []
    for (let request = 0; request < 3; request++) {
      received.push((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode)
    }
    t.same(received, [200, 200, 429])
  }
)

t.test(
  'a request that passes the hooks again is counted once, whatever the host writes in between',
  async (t) => {
    const { app, ask, statuses } = await createServer({
      ...options,
      // The path of a listed operation is subject also where no route serves it.
      operations: [{ method: 'POST', path: '/run' }],
      mark: false,
      handler (request, reply) {
        if (request.headers['x-forget'] === 'yes') write(request, null)
        reply.callNotFound()
      }
    })
    app.setNotFoundHandler((request, reply) => {
      reply.code(404).send({ count: request.quota.decisions[0]?.count })
    })
    t.same((await ask()).json(), { count: 1 })
    t.same(await statuses(1, { 'x-forget': 'yes' }), [404])
    t.same(await statuses(1), [429])
  }
)
