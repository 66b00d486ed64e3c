// Log lines, errors about options and a response contained what clients attach to their errors, and connection strings: commands, keys, passwords.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { InsuredQuotaStore, MemoryQuotaStore, type QuotaOptions, type QuotaStore } from '../../lib/index.js'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { analyze, asAlice, captureLog, createService } from '../support/service.js'

const secret = 'hunter2'

function clientError (): Error {
  const error = Object.assign(new Error('WRONGPASS invalid username-password pair'), { code: 'WRONGPASS', command: { name: 'auth', args: [secret] }, previousErrors: [{ args: [secret] }] })
  error.cause = new Error(secret)
  error.stack = `Error: at ${secret}`
  return error
}

// Values that can be thrown or rejected with, and how they are logged.
const thrown: [unknown, object][] = [
  [clientError(), { name: 'Error', code: 'WRONGPASS', message: 'WRONGPASS invalid username-password pair' }],
  [Object.assign(new TypeError('x'), { code: 7, secret }), { name: 'TypeError', code: 7, message: 'x' }],
  [Object.assign(new Error('x'), { code: { secret } }), { name: 'Error', message: 'x' }],
  [{ message: 'no error', secret }, { name: 'Error', message: 'no error' }],
  [{ secret }, { name: 'Error', message: 'an object was thrown' }],
  ['a text', { name: 'Error', message: '"a text" was thrown' }],
  [undefined, { name: 'Error', message: 'undefined was thrown' }],
  [Symbol('s'), { name: 'Error', message: 'Symbol(s) was thrown' }],
  [Object.defineProperty(new Error(secret), 'message', { get: () => fail(secret) }), { name: 'Error', message: 'an object was thrown' }]
]

function failingStore (error: unknown): QuotaStore {
  return { acquire: () => new Promise((_resolve, reject) => { Reflect.apply(reject, undefined, [error]) }) }
}

function fail (error: unknown): never {
  throw error
}

const places: [string, (error: unknown) => QuotaOptions][] = [
  ['the store', (error) => ({ authentication: asAlice, store: failingStore(error) })],
  ['the primary store', (error) => ({ authentication: asAlice, store: new InsuredQuotaStore({ primary: failingStore(error) }) })],
  ['the preference reader', (error) => ({ preferences: { get: () => fail(error) } })],
  ['the authentication', (error) => ({ authentication: () => fail(error) })],
  ['refusalBody', (error) => ({ refusalBody: () => fail(error) })]
]

for (const [place, optionsFor] of places) {
  t.test(`an error of ${place} is logged with its name, code and message only`, async (t) => {
    for (const [error, logged] of thrown) {
      const log = captureLog('trace')
      await analyze(await createService(optionsFor(error), { logger: log.logger }), null)
      const lines = log.lines.filter(({ err }) => err !== undefined)
      t.equal(lines.length, 1, `${typeof error}`)
      const { type, stack, ...fields } = Object(lines[0]?.err)
      t.same(fields, logged)
      t.equal(stack, `${fields.name}: ${fields.message}`, 'one line')
      t.notMatch(JSON.stringify(log.lines), secret)
    }
  })
}

t.test('the response of quotaStanding contains nothing of an error of the store, and the log only its name, code and message', async (t) => {
  const log = captureLog()
  const app = await createService({ store: { acquire: () => fail(clientError()), peek: () => fail(clientError()) }, authentication: asAlice }, { logger: log.logger })
  app.get('/api/quota', async (request) => app.quotaStanding(request))
  const { statusCode, payload } = await app.inject('/api/quota')
  t.equal(statusCode, 503)
  t.notMatch(payload, /WRONGPASS|hunter2/)
  t.notMatch(JSON.stringify(log.lines), secret)
  t.match(log.lines.find(({ msg }) => String(msg).startsWith('the quota store failed')), { err: { code: 'WRONGPASS', message: /^WRONGPASS/ } })
})

const options = { password: secret }
const connection = `host=db user=service password=${secret}`
// The option that the error names, what is shown of its value, and the mistake.
const mistakes: [string, string, () => unknown][] = [
  ['client', 'an object', () => Reflect.construct(RedisQuotaStore, [{ client: options }])],
  ['client', 'a URL', () => Reflect.construct(RedisQuotaStore, [{ client: `redis://user:${secret}@host` }])],
  ['client', 'a function', () => Reflect.construct(RedisQuotaStore, [{ client: Object.assign(() => {}, options) }])],
  ['client', 'a string', () => Reflect.construct(RedisQuotaStore, [{ client: connection }])],
  ['primary', 'an object', () => Reflect.construct(InsuredQuotaStore, [{ primary: options }])],
  ['primary', 'a string', () => Reflect.construct(InsuredQuotaStore, [{ primary: connection }])],
  ['clock', 'an object', () => Reflect.construct(MemoryQuotaStore, [{ clock: options }])],
  ['pool', 'a string', () => Reflect.construct(PostgresQuotaStore, [{ pool: connection }])],
  ['password', 'a string', () => Reflect.construct(PostgresQuotaStore, [{ pool: { query () {} }, password: secret }])],
  ['store', 'a string', async () => { await Fastify().register(quotaPlugin, Object({ store: connection })) }]
]

t.test('an error about an option shows the type of what can hold a secret, never its content', async (t) => {
  for (const [option, shown, make] of mistakes) {
    const error: unknown = await Promise.resolve().then(make).catch((error: unknown) => error)
    t.match(error, { code: 'FST_ERR_LLM_QUOTA_OPTION', message: new RegExp(`option ${option} .*; it got ${shown}(?:; there are the options .*)?$`) })
    t.notMatch(String(Object(error).stack), secret)
  }
})
