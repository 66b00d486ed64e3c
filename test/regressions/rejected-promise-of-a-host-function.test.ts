// A host function that must return a value, but is asynchronous and rejects, ended the process with an unhandled rejection.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { anonymousAuthentication, localAuthentication } from '../../lib/index.js'
import { captureLog } from '../support/service.js'

async function rejects (): Promise<never> {
  throw new Error('of the host')
}

// The type of each of these functions does not allow a promise, but a host in JavaScript is not told so.
const authentication = () => localAuthentication('alice')
const asynchronous: [string, number, object, unknown, RegExp][] = [
  ['config.quota', 503, { authentication }, rejects, /could not be determined/],
  ['unreported', 200, { authentication, quotas: { tokens: { perMinute: { tokens: 10 }, unreported: rejects } } }, 'tokens', /unreported failed/],
  ['cost', 503, { authentication, quotas: { tokens: { perMinute: { tokens: 10 }, cost: rejects } } }, 'tokens', /cost of the request could not be determined/],
  ['refusalBody', 401, { authentication: anonymousAuthentication, refusalBody: rejects }, true, /refusalBody failed/]
]

for (const [name, status, options, quota, message] of asynchronous) {
  t.test(`a rejected promise from ${name} is logged and handled`, async (t) => {
    const { lines, logger } = captureLog()
    const app = Fastify({ logger })
    await app.register(quotaPlugin, options)
    app.get('/marked', { config: { quota } as object }, async () => 'ran')
    t.equal((await app.inject('/marked')).statusCode, status)
    // An unhandled rejection would make the test fail at the end of this turn of the event loop.
    await new Promise(setImmediate)
    t.match(lines.filter(({ level }) => level === 50), [{ msg: message }])
  })
}
