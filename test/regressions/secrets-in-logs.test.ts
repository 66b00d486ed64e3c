// Log lines contained the complete errors of clients, with the commands, keys and passwords that clients attach to them.
import t from 'tap'
import { InsuredQuotaStore, localAuthentication, MemoryQuotaStore, type QuotaOptions, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { analyze, captureLog, createService } from '../support/service.js'

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
  [Symbol('s'), { name: 'Error', message: 'Symbol(s) was thrown' }]
]

function failingStore (error: unknown): QuotaStore {
  return { acquire: () => new Promise((_resolve, reject) => { Reflect.apply(reject, undefined, [error]) }) }
}

function fail (error: unknown): never {
  throw error
}

const places: [string, (error: unknown) => QuotaOptions][] = [
  ['the store', (error) => ({ authentication: () => localAuthentication('alice'), store: failingStore(error) })],
  ['the primary store', (error) => ({ authentication: () => localAuthentication('alice'), store: new InsuredQuotaStore({ primary: failingStore(error) }) })],
  ['the preference reader', (error) => ({ preferences: { get: () => fail(error) } })],
  ['the authentication', (error) => ({ authentication: () => fail(error) })],
  ['refusalBody', (error) => ({ refusalBody: () => fail(error) })]
]

for (const [place, optionsFor] of places) {
  t.test(`an error of ${place} is logged with its name, code and message only`, async (t) => {
    for (const [error, logged] of thrown) {
      const log = captureLog('trace')
      const app = await createService(optionsFor(error), { logger: log.logger })
      await analyze(app, null)
      const lines = log.lines.filter(({ err }) => err !== undefined)
      t.equal(lines.length, 1, `${typeof error}`)
      const { type, stack, ...fields } = Object(lines[0]?.err)
      t.same(fields, logged)
      t.equal(stack, '')
      t.notMatch(JSON.stringify(log.lines), secret)
    }
  })
}

t.test('an error about an option shows the type of what can hold a secret, never its content', async (t) => {
  const options = { password: secret }
  const client = Object.assign(() => {}, options)
  const create: [string, () => unknown][] = [
    ['new RedisQuotaStore({ client: options })', () => Reflect.construct(RedisQuotaStore, [{ client: options }])],
    ['new RedisQuotaStore({ client: url })', () => Reflect.construct(RedisQuotaStore, [{ client: `redis://user:${secret}@host` }])],
    ['new RedisQuotaStore({ client: function })', () => Reflect.construct(RedisQuotaStore, [{ client }])],
    ['new InsuredQuotaStore({ primary: options })', () => Reflect.construct(InsuredQuotaStore, [{ primary: options }])],
    ['new MemoryQuotaStore({ clock: options })', () => Reflect.construct(MemoryQuotaStore, [{ clock: options }])]
  ]
  for (const [what, run] of create) {
    try {
      run()
      t.fail(what)
    } catch (error) {
      t.match(error, { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /it got (an object|a function|a URL)$/ }, what)
      t.notMatch(String(Object(error).stack), secret)
    }
  }
})

t.test('a value of a preference reader that is an object or a function is logged by its type', async (t) => {
  for (const [value, shown] of [[{ secret }, 'an object'], [Object.assign(() => {}, { secret }), 'a function'], [[secret], 'an array'], [`https://user:${secret}@host`, 'a URL']]) {
    const log = captureLog('trace')
    await analyze(await createService({ preferences: { get: () => value } }, { logger: log.logger }), null)
    t.match(log.lines.filter(({ level }) => level === 40), [{ value: shown }])
    t.notMatch(JSON.stringify(log.lines), secret)
  }
})
