// The match of the first request to a route was used for all later ones, even after a hook had changed `config.url`, which Fastify reports as
// the route's pattern. Behind a wildcard, a first request to another path then made all later requests pass uncounted.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication } from '../../lib/index.js'

const layouts: Record<string, (app: FastifyInstance) => void> = {
  'a wildcard route': (app) => { app.post('/*', async () => 'ran') },
  'a parametric route': (app) => { app.post('/api/:operation', async () => 'ran') },
  'a not-found handler': (app) => {
    const options: object = { config: {} }
    app.setNotFoundHandler(options, async () => 'ran')
  }
}

for (const [layout, declare] of Object.entries(layouts)) {
  for (const changes of ['each request', 'the first request']) {
    t.test(`${layout} is counted if a hook writes the path of ${changes} to config.url`, async (t) => {
      const app = Fastify()
      await app.register(quotaPlugin, { perMinute: 1, authentication: () => localAuthentication('alice') })
      let requests = 0
      app.addHook('onRequest', async (request) => {
        requests += 1
        const { config } = request.routeOptions
        const { url } = config
        if (changes === 'each request' || requests === 1) Reflect.set(config, 'url', request.url)
        else Reflect.set(config, 'url', requests === 2 ? undefined : url)
      })
      declare(app)
      const statusOf = async (url: string) => (await app.inject({ method: 'POST', url })).statusCode
      t.equal(await statusOf('/api/other'), 200)
      t.same([await statusOf('/api/analyze'), await statusOf('/api/analyze'), await statusOf('/api/analyze')], [200, 429, 429])
    })
  }
}
