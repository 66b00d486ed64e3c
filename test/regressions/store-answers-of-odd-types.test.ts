// Invalid results of a store were accepted, such as a negative count or a windowRemaining that is not a number: RateLimit and Retry-After
// could not be parsed, a bigint was answered with 500, and an insured store did not use its fallback.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, { InsuredQuotaStore, localAuthentication, MemoryQuotaStore, type QuotaStore } from '../../lib/index.js'

const good = { admitted: true, count: 1, windowRemaining: 5000, overflow: false }
const answers: Record<string, unknown> = {
  'a negative count': { ...good, count: -5 },
  'a count with a fraction': { ...good, count: 1.5 },
  'a bigint as the count': { ...good, count: 1n },
  'a string as windowRemaining': { ...good, windowRemaining: '5000' },
  'an array as windowRemaining': { ...good, windowRemaining: [5000] },
  'a bigint as windowRemaining': { ...good, windowRemaining: 5000n },
  'a string as overflow': { ...good, overflow: 'no' },
  'no overflow': { admitted: true, count: 1, windowRemaining: 5000 },
  'a windowRemaining without a decimal form': { ...good, windowRemaining: 1e300 },
  null: null
}

function storeThatAnswers (answer: unknown): QuotaStore {
  const memory = new MemoryQuotaStore()
  return Object.assign(memory, { acquire: () => answer, peek: () => answer })
}

async function ask (store: QuotaStore) {
  const app = Fastify()
  await app.register(quotaPlugin, { store, rateLimitHeaders: 'draft-10', authentication: () => localAuthentication('alice') })
  app.post('/api/analyze', async () => 'ran')
  app.get('/api/quota', async (request) => app.quotaStanding(request))
  const { statusCode, headers } = await app.inject({ method: 'POST', url: '/api/analyze' })
  const standing = await app.inject('/api/quota')
  await app.close()
  return { statusCode, rateLimit: headers.ratelimit, standing: standing.statusCode }
}

for (const [what, answer] of Object.entries(answers)) {
  t.test(`${what} is not a valid result of acquire`, async (t) => {
    for (const given of [answer, Promise.resolve(answer)]) {
      const { statusCode, standing } = await ask(storeThatAnswers(given))
      t.equal(statusCode, 503)
      t.equal(standing, answer === null ? 200 : 503)
      t.match(await ask(new InsuredQuotaStore({ primary: storeThatAnswers(given) })), { statusCode: 200, rateLimit: '"default";r=9;t=60' })
    }
  })
}
