// A host with its own decorator `preferences` could not start with the option, nor without it if the decorator had another purpose.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { localAuthentication } from '../../lib/index.js'

const theme = { theme: 'dark' }

async function admitted (host: unknown, options: object): Promise<number> {
  const app = Fastify()
  Reflect.apply(app.decorate, app, ['preferences', host])
  await app.register(quotaPlugin, { authentication: () => localAuthentication('alice'), perMinute: 3, ...options })
  app.post('/api/analyze', async () => 'ran')
  await app.ready()
  t.equal(app.getDecorator('preferences'), host, 'the decorator of the host does not change')
  for (let count = 0; ; count++) {
    if ((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode !== 200) return count
  }
}

t.test('the option preferences is used, and the decorator of the host does not change', async (t) => {
  t.equal(await admitted(theme, { preferences: new Map([['rate-limit.per-minute', 2]]) }), 2)
})

t.test('the decorator of the host is not read if the option preferences is false', async (t) => {
  t.equal(await admitted(theme, { preferences: false }), 3)
  t.equal(await admitted(new Map([['rate-limit.per-minute', 2]]), { preferences: false }), 3)
})

t.test('the decorator of the host must be a reader if the option is not set, and the error describes the solution', async (t) => {
  t.equal(await admitted(new Map([['rate-limit.per-minute', 2]]), {}), 2)
  t.equal(await admitted(null, {}), 3)
  await t.rejects(admitted(theme, {}), /preferences, as the host decorated it \(set the option preferences to a reader or to false .*must be a preference reader/)
})

t.test('no preferences are decorated if there is neither an option nor a decorator of the host', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin)
  t.notOk('preferences' in app)
})
