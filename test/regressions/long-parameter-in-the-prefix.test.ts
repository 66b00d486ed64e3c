// A segment in place of a parameter of the prefix that was longer than `maxParamLength` was not counted behind a wildcard, although a wildcard
// matches segments of any length.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'

const hosts = {
  'a wildcard': (app: ReturnType<typeof Fastify>) => { app.post('/*', async () => 'ran') },
  'a not-found handler': (app: ReturnType<typeof Fastify>) => { app.setNotFoundHandler(async () => 'ran') }
}

for (const [where, declare] of Object.entries(hosts)) {
  t.test(`a segment in place of a parameter of the prefix can have any length behind ${where}`, async (t) => {
    for (const [length, routerOptions] of [[100, {}], [101, {}], [1_000, {}], [6, { maxParamLength: 5 }]] as const) {
      const app = Fastify({ routerOptions })
      await app.register(quotaPlugin, { prefix: '/:tenant' })
      declare(app)
      const statusOf = async (url: string) => (await app.inject({ method: 'POST', url })).statusCode
      t.equal(await statusOf(`/${'a'.repeat(length)}/api/analyze`), 401, `${length} characters`)
      t.equal(await statusOf(`/${'a'.repeat(length)}/api/other`), 200)
    }
  })
}
