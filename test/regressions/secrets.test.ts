// Log lines and a response contained what clients attach to their errors: commands, keys,
// passwords.
import t from 'tap'
import { InsuredQuotaStore, type QuotaOptions, type QuotaStore } from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { createServer } from '../support/server.js'

const secret = 'hunter2'

function clientError (): Error {
  const error = Object.assign(new Error('WRONGPASS invalid username-password pair'), {
    code: 'WRONGPASS',
    command: { name: 'auth', args: [secret] },
    previousErrors: [{ args: [secret] }]
  })
  error.cause = new Error(secret)
  error.stack = `Error: at ${secret}`
  return error
}

// Values that can be thrown or rejected with, and how they are logged.
const thrown: [unknown, object][] = [
  [
    clientError(),
    { name: 'Error', code: 'WRONGPASS', message: 'WRONGPASS invalid username-password pair' }
  ],
  [
    Object.assign(new TypeError('x'), { code: 7, secret }),
    { name: 'TypeError', code: 7, message: 'x' }
  ],
  [Object.assign(new Error('x'), { code: { secret } }), { name: 'Error', message: 'x' }],
  [{ message: 'no error', secret }, { name: 'Error', message: 'no error' }],
  [{ secret }, { name: 'Error', message: 'an object was thrown' }],
  ['a text', { name: 'Error', message: 'a string was thrown' }],
  [undefined, { name: 'Error', message: 'undefined was thrown' }],
  [Symbol('s'), { name: 'Error', message: 'a symbol was thrown' }],
  [
    Object.defineProperty(new Error(secret), 'message', { get: () => fail(secret) }),
    { name: 'Error', message: 'an object was thrown' }
  ]
]

function failingStore (error: unknown): QuotaStore {
  return {
    acquire: () =>
      new Promise((_resolve, reject) => {
        Reflect.apply(reject, undefined, [error])
      })
  }
}

function fail (error: unknown): never {
  throw error
}

const places: [string, (error: unknown) => QuotaOptions][] = [
  ['the store', (error) => ({ store: failingStore(error) })],
  [
    'the primary store',
    (error) => ({ store: new InsuredQuotaStore({ primary: failingStore(error) }) })
  ],
  ['the preference reader', (error) => ({ preferences: { get: () => fail(error) } })],
  ['the authentication', (error) => ({ authentication: () => fail(error) })],
  ['refusalBody', (error) => ({ authentication: () => null, refusalBody: () => fail(error) })]
]

for (const [place, optionsFor] of places) {
  t.test(`an error of ${place} is logged with its name, code and message only`, async (t) => {
    for (const [error, logged] of thrown) {
      const { ask, log } = await createServer({ ...optionsFor(error), logged: 'trace' })
      await ask()
      const lines = log.problems()
      t.equal(lines.length, 1, `${typeof error}`)
      const { type, stack, ...fields } = Object(lines[0]?.err)
      t.same(fields, logged)
      t.equal(stack, `${fields.name}: ${fields.message}`, 'one line')
      t.notMatch(JSON.stringify(log.lines), secret)
    }
  })
}

t.test(
  'the response of quotaStanding contains nothing of an error of the store, and the log ' +
    'its name, code and message',
  async (t) => {
    const { app, log } = await createServer({
      store: { acquire: () => fail(clientError()), peek: () => fail(clientError()) }
    })
    app.get('/api/quota', async (request) => app.quotaStanding(request))
    const { statusCode, payload } = await app.inject('/api/quota')
    t.equal(statusCode, 503)
    t.notMatch(payload, /WRONGPASS|hunter2/)
    t.notMatch(JSON.stringify(log.lines), secret)
    matchExactly(t, log.problems(), [
      {
        msg: 'the standing of the caller could not be read',
        err: { code: 'WRONGPASS', message: /^WRONGPASS/ }
      },
      { msg: /^fastify-llm-quota: the standing of the caller could not be determined/ }
    ])
  }
)
