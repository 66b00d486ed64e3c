// A not-found handler with a configuration that is not an object made every request to it fail.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'

t.test('the configuration of a not-found handler can be any value', async (t) => {
  for (const config of ['x', 5, true, { name: 'x' }]) {
    const app = Fastify()
    await app.register(quotaPlugin)
    Reflect.apply(app.setNotFoundHandler, app, [{ config }, async () => 'ran'])
    const statusOf = async (url: string) => (await app.inject({ method: 'POST', url })).statusCode
    t.same([await statusOf('/other'), await statusOf('/api/analyze'), await statusOf('/other')], [200, 401, 200], JSON.stringify(config))
  }
})
