// A line of the log held what a function of the host returned, or a client sent: a claim with an
// address, or a token. There was a line for each request. The error of a meter that reads no bytes
// held what the model wrote.
import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import type { QuotaDefinition, QuotaOptions, RouteMark } from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { createServer } from '../support/server.js'
import { virtualPerformance } from '../support/time.js'
import { until } from '../support/until.js'

const secret = 'alice@secret.example'
const tokens = { perDay: { tokens: 50 }, cost: 5 }

/** Each what a function of the host returns in place of what it must. */
const wrong: Record<string, unknown> = {
  text: secret,
  array: [secret],
  object: { email: secret },
  symbol: Symbol(secret),
  promise: Promise.resolve(secret)
}

const kinds: Record<string, (value: never) => { options?: QuotaOptions; mark?: RouteMark }> = {
  'a mark': (value) => ({ mark: () => value }),
  'a cost': (value) => ({ options: { quotas: { chat: { perDay: 5, cost: () => value } } } }),
  'a limit': (value) => ({ options: { quotas: { chat: { perDay: () => value } } } }),
  'a time zone': (value) => ({
    options: { quotas: { chat: { perDay: 5, timeZone: () => value } } }
  }),
  unreported: (value) => ({
    options: { quotas: { chat: { ...tokens, unreported: () => value } as QuotaDefinition } }
  }),
  'an authentication': (value) => ({ options: { authentication: () => value } }),
  'a preference': (value) => ({ options: { preferences: { get: () => value } } })
}

for (const [kind, hostWith] of Object.entries(kinds)) {
  t.test(`no line of the log holds what is returned as ${kind}`, async (t) => {
    for (const [what, value] of Object.entries(wrong)) {
      const quotas = { chat: tokens }
      const { options, mark = ['default', 'chat'] } = hostWith(value as never)
      const { ask, log } = await createServer({ mark, quotas, ...options, logged: 'debug' })
      await ask()
      await until(`the log says what is wrong: ${what}`, () => log.problems().length > 0)
      t.notMatch(JSON.stringify(log.lines), secret, what)
    }
  })
}

t.test('no line of the log holds an amount, a unit or an error that is no error', async (t) => {
  const { begin, log } = await createServer({
    quotas: {
      chat: {
        ...tokens,
        unreported () {
          throw secret
        }
      }
    },
    logged: 'debug'
  })
  const { request, end } = await begin()
  for (const amounts of [secret, { tokens: secret }, { [secret]: 5 }, Symbol(secret)]) {
    await Reflect.apply(request.quota.charge, request.quota, [amounts])
  }
  await end()
  await delay(0)
  t.equal(log.problems().length, 3)
  t.notMatch(JSON.stringify(log.lines), secret)
})

t.test('no response, and no line of the log, holds text that a model wrote', async (t) => {
  const { app, log } = await createServer({ quotas: { chat: tokens }, logged: 'debug' })
  const config = { quota: 'chat' }
  app.post('/relayed', { config }, async ({ quota }, reply) => {
    return await reply.send(quota.meter(Readable.from([`data: ${secret}`])))
  })
  const response = await app.inject({ method: 'POST', url: '/relayed' })
  t.equal(response.statusCode, 500)
  t.match(response.body, 'must consist of bytes; it got a string')
  t.notMatch(response.body, secret)
  t.notMatch(JSON.stringify(log.lines), secret)
})

t.test('a line that clients can cause at will comes once a minute, with a count', async (t) => {
  const time = virtualPerformance(t)
  const cost = ({ headers }: FastifyRequest) => Number(headers['x-items'])
  const { ask, log } = await createServer({ quotas: { chat: { perDay: 50, cost } } })
  for (let request = 0; request < 5; request++) await ask({ headers: { 'x-items': 'many' } })
  const line = { quota: 'chat', msg: /^the cost of the request could not.*once a minute$/ }
  matchExactly(t, log.problems(), [{ ...line, times: 1 }])
  time.advance(60_000)
  await ask({ headers: { 'x-items': 'many' } })
  matchExactly(t, log.problems(), [{ ...line, times: 1 }, { ...line, times: 5 }])
})
