// With an asynchronous authentication, every request was answered with 401 without a log line, and a rejection was unhandled.
import t from 'tap'
import { localAuthentication, tokenAuthentication, type QuotaOptions } from '../../lib/index.js'
import { alice, analyze, captureLog, createService } from '../support/service.js'

async function answered (authentication: QuotaOptions['authentication'] & object) {
  const log = captureLog()
  const app = await createService({ authentication, perMinute: 1 }, { logger: log.logger })
  const statuses = [(await analyze(app, null)).statusCode, (await analyze(app, null)).statusCode]
  return { statuses, errors: log.lines.filter(({ level }) => level === 50) }
}

t.test('a promise of an authentication identifies the caller', async (t) => {
  for (const authentication of [
    async () => localAuthentication('alice'),
    async () => tokenAuthentication(alice),
    () => ({ then: (resolve: (value: unknown) => void) => { resolve(localAuthentication('alice')) } }),
    () => Object.assign(() => {}, { then: (resolve: (value: unknown) => void) => { resolve(localAuthentication('alice')) } })
  ]) {
    t.same(await answered(authentication as () => Promise<null>), { statuses: [200, 429], errors: [] })
  }
})

t.test('a promise that resolves to null results in 401', async (t) => {
  t.same(await answered(async () => null), { statuses: [401, 401], errors: [] })
})

t.test('an authentication function that fails results in 401, and the error is logged', async (t) => {
  const failing: [string, () => unknown][] = [
    ['throws', () => { throw new Error('gone') }],
    ['rejects', async () => { throw new Error('gone') }],
    ['rejects without an error', () => new Promise((_resolve, reject) => { Reflect.apply(reject, undefined, []) })],
    ['has a then that throws', () => ({ then () { throw new Error('gone') } })],
    ['has a then that cannot be read', () => ({ get then () { throw new Error('gone') } })]
  ]
  for (const [what, authentication] of failing) {
    const { statuses, errors } = await answered(authentication as () => null)
    t.same(statuses, [401, 401], what)
    t.equal(errors.length, 2, what)
    t.match(errors, [{ msg: /^the authentication of the request could not be read/, err: { message: /\w/ } }], what)
  }
})
