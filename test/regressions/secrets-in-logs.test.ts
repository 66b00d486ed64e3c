// Log lines contained the complete errors of clients, with the commands, keys and passwords that clients attach to them.
import t from 'tap'
import { InsuredQuotaStore, localAuthentication, MemoryQuotaStore, type QuotaOptions, type QuotaStore } from '../../lib/index.js'
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
  [{ secret }, { name: 'Error', message: 'an object without a message was thrown' }],
  [Object.create(null, { message: { get () { throw new Error(secret) } } }), { name: 'Error', message: 'an error whose properties cannot be read was thrown' }],
  ['a text', { name: 'string', message: "'a text'" }],
  [undefined, { name: 'undefined', message: 'undefined' }],
  [null, { name: 'object', message: 'null' }],
  [Symbol('s'), { name: 'symbol', message: 'Symbol(s)' }]
]

function failingStore (error: unknown): QuotaStore {
  const memory = new MemoryQuotaStore()
  return {
    acquire: () => new Promise((_resolve, reject) => { Reflect.apply(reject, undefined, [error]) }),
    peek: (callerKey) => memory.peek(callerKey),
    forget () {},
    clearCounters () {},
    inspect: () => memory.inspect()
  }
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
