// Fastify reports the pattern that a route was declared with, even if an `onRoute` hook has changed its URL. A literal route that was moved to
// the path of an operation in this way was not counted.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'

for (const order of ['before', 'after']) {
  t.test(`a route that an onRoute hook, added ${order} the plugin, moves to an operation is counted`, async (t) => {
    const app = Fastify()
    const move = () => app.addHook('onRoute', (route) => {
      if (route.url === '/analyze') route.path = route.url = '/api/analyze'
    })
    if (order === 'before') move()
    await app.register(quotaPlugin)
    if (order === 'after') move()
    app.post('/analyze', async () => 'ran')
    app.post('/other', async () => 'ran')
    const statusOf = async (url: string) => (await app.inject({ method: 'POST', url })).statusCode
    t.same([await statusOf('/api/analyze'), await statusOf('/api/%61nalyze?x'), await statusOf('/other'), await statusOf('/analyze')], [401, 401, 200, 404])
  })
}
