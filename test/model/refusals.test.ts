// docs/rules.md, "Refusal": the bodies in the forms of OpenAI's and Anthropic's APIs.
import Fastify from 'fastify'
import t from 'tap'
import quotaPlugin, {
  anthropicRefusal,
  localAuthentication,
  openaiRefusal,
  type QuotaOptions
} from '../../lib/index.js'

const failing = {
  acquire () {
    throw new Error('e')
  }
}

const alice = localAuthentication('alice')
const authenticated: QuotaOptions = { authentication: () => alice }
const unauthenticated: QuotaOptions = { authentication: () => null }

const isOver = 'Rate limit exceeded. Maximum 1 LLM requests per minute. Please wait.'
const isUnavailable = 'The request quota is unavailable. Please try again.'
const isUnauthenticated = 'Authentication is required for this LLM operation.'

const refusals: [options: QuotaOptions, status: number, openai: object, anthropic: object][] = [
  [
    unauthenticated,
    401,
    { message: isUnauthenticated, type: 'invalid_request_error', code: 'invalid_api_key' },
    { message: isUnauthenticated, type: 'authentication_error' }
  ],
  [
    { ...authenticated, perMinute: 1 },
    429,
    { message: isOver, type: 'requests', code: 'rate_limit_exceeded' },
    { message: isOver, type: 'rate_limit_error' }
  ],
  [
    { ...authenticated, store: failing },
    503,
    { message: isUnavailable, type: 'server_error', code: null },
    { message: isUnavailable, type: 'api_error' }
  ]
]

/** Returns the last of two responses. */
async function refusalOf (options: QuotaOptions) {
  const app = Fastify({ genReqId: () => 'id-1' })
  await app.register(quotaPlugin, options)
  app.post('/api/analyze', async () => 'admitted')
  const ask = () => app.inject({ method: 'POST', url: '/api/analyze' })
  await ask()
  return await ask()
}

for (const [options, status, openai, anthropic] of refusals) {
  t.test(`a refusal with ${status} has the form of OpenAI's API`, async (t) => {
    const response = await refusalOf({ ...options, refusalBody: openaiRefusal })
    t.equal(response.statusCode, status)
    t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
    t.strictSame(response.json(), { error: { param: null, ...openai } })
  })

  t.test(`a refusal with ${status} has the form of Anthropic's API`, async (t) => {
    const response = await refusalOf({ ...options, refusalBody: anthropicRefusal })
    t.equal(response.statusCode, status)
    t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
    t.strictSame(response.json(), { type: 'error', error: anthropic, request_id: 'id-1' })
  })
}

t.test('a refusal in tokens has the type of OpenAI\'s limit of tokens', async (t) => {
  const app = Fastify()
  const tokens = { perMinute: { tokens: 5 }, cost: 6 }
  const quotas = { tokens }
  await app.register(quotaPlugin, { ...authenticated, quotas, refusalBody: openaiRefusal })
  app.post('/chat', { config: { quota: 'tokens' } }, async () => 'admitted')
  const response = await app.inject({ method: 'POST', url: '/chat' })
  t.match(response.json(), { error: { type: 'tokens', code: 'rate_limit_exceeded' } })
})
