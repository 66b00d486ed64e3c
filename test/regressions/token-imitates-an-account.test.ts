// With `authentication: (request) => request.user`, a token with the fields of an authentication was counted as that local account.
import t from 'tap'
import { callerKey, type AuthenticationReader } from '../../lib/index.js'
import { analyze, captureLog, createService, issuer } from '../support/service.js'

const payload = { kind: 'local', authenticated: true, username: 'alice' }
const readers: [string, () => AuthenticationReader][] = [
  ['returns request.user', () => (request) => JSON.parse(JSON.stringify(request.user))],
  ['promises request.user', () => async (request) => JSON.parse(JSON.stringify(request.user))]
]

for (const [what, createReader] of readers) {
  t.test(`claims are no authentication if the option authentication ${what}, and one warning says how to wrap them`, async (t) => {
    const log = captureLog()
    const app = await createService({ authentication: createReader() }, { logger: log.logger })
    for (const claims of [payload, { ...payload, iss: issuer, sub: 'alice' }, { kind: 'token', authenticated: true, claims: { iss: issuer, sub: 'alice' } }]) {
      t.equal((await analyze(app, claims)).statusCode, 401, JSON.stringify(claims))
    }
    t.same(app.quotaStore.inspect?.(), { trackedCallers: 0, sweeps: 0 })
    const wrapping = log.warnings().filter((message) => message.includes('tokenAuthentication(claims)'))
    t.match(wrapping, [/localAuthentication\(username\).*not repeated$/])
    t.equal(wrapping.length, 1)
  })
}

t.test('an object that this package did not make has no caller key', async (t) => {
  for (const value of [payload, { kind: 'token', authenticated: true, claims: { iss: issuer, sub: 'alice' } }, 'alice', 42]) t.equal(Reflect.apply(callerKey, undefined, [value]), null)
})
