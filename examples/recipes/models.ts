// A proxy for a server with OpenAI's API. The model in the body chooses the quota, and refusals have OpenAI's format.
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import quotaPlugin, { type QuotaDecision } from 'fastify-llm-quota'

const { JWT_SECRET: secret = '', MODEL_URL: upstream = 'http://127.0.0.1:11434/v1', MODEL_KEY: key = '' } = process.env
if (secret.length < 32) throw new Error('JWT_SECRET must have 32 characters or more')

const quotaOfModel = new Map<unknown, string>([['large-model', 'large'], ['small-model', 'small']])

function errorOf ({ outcome, limit, unit }: QuotaDecision) {
  switch (outcome) {
    case 'rejected': return { message: `The limit of ${limit} ${unit} is reached.`, type: unit, param: null, code: 'rate_limit_exceeded' }
    case 'unauthenticated': return { message: 'There is no valid API key.', type: 'invalid_request_error', param: null, code: 'invalid_api_key' }
    default: return { message: 'The quota is unavailable.', type: 'server_error', param: null, code: null }
  }
}

const app = Fastify()
await app.register(fastifyJwt, { secret })
// The quota refuses a request without a valid token, so this refusal has OpenAI's format too.
app.addHook('onRequest', async (request) => { await request.jwtVerify().catch(() => {}) })
// Without this header, the clients of OpenAI and Anthropic wait as long as Retry-After says, which can be hours.
app.addHook('onSend', async (_request, reply) => { if (Number(reply.getHeader('retry-after')) > 60) reply.header('x-should-retry', 'false') })
await app.register(quotaPlugin, {
  operations: [],
  quotas: { large: { perDay: 2 }, small: { perMinute: 4 } },
  refusalBody: (decision) => ({ contentType: 'application/json; charset=utf-8', body: JSON.stringify({ error: errorOf(decision) }) })
})

// An unknown model has the stricter limit.
app.post('/v1/chat/completions', { config: { quota: ({ body }) => quotaOfModel.get(Object(body).model) ?? 'large' } }, async ({ body }, reply) => {
  const gone = new AbortController()
  reply.raw.once('close', () => { gone.abort() })
  const response = await fetch(`${upstream}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: gone.signal
  })
  return reply.code(response.status).type(response.headers.get('content-type') ?? 'application/json').send(response.body)
})

console.log(await app.listen({ port: Number(process.env['PORT'] ?? 3000) }))
