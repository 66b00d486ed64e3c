// What takes a request takes any: that of HTTP/2, of a typed route, or of a type provider.
// Compiled, and not run.
import type { Http2SecureServer } from 'node:http2'
import type { Readable } from 'node:stream'
import { Type, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, {
  type FastifyReply,
  type FastifyRequest,
  type FastifyTypeProvider,
  type RawServerBase,
  type RequestGenericInterface
} from 'fastify'
import quotaPlugin, {
  localAuthentication,
  type AuthenticationReader,
  type QuotaDecision,
  type QuotaOptions,
  type QuotaPermit
} from '../../lib/index.js'

interface Chat {
  readonly Body: { readonly prompts: readonly string[] }
  readonly Headers: { readonly 'x-tenant': string }
}

interface Provider extends FastifyTypeProvider {
  validator: this['schema'] extends { readonly of: unknown } ? this['schema']['of'] : unknown
}

type SecureRequest = FastifyRequest<RequestGenericInterface, Http2SecureServer>
type SecureChat = FastifyRequest<Chat, Http2SecureServer>

const tenantOf: AuthenticationReader = ({ headers }: FastifyRequest<Chat>) =>
  localAuthentication(headers['x-tenant'])

export async function start (
  proxied: FastifyRequest<RequestGenericInterface, RawServerBase>
): Promise<void> {
  const secure = Fastify({ http2: true })
  await secure.register(quotaPlugin, { authentication: tenantOf })
  secure.post<Chat>(
    '/',
    {
      config: {
        quota: ({ body }: FastifyRequest<Chat>) => (body.prompts.length > 1 ? 'prompts' : null)
      }
    },
    async (request, reply) => {
      await request.quota.charge(1)
      const permit = await secure.quotaAcquire(request, 'tools')
      return permit.refusal === null ? secure.quotaStanding(request) : permit.refuse(reply)
    }
  )

  const app = Fastify()
  await app.register(quotaPlugin, {
    authentication: tenantOf,
    refusalBody: (_decision, { headers }: FastifyRequest<Chat>) => ({
      contentType: 'text/plain',
      body: headers['x-tenant']
    }),
    quotas: {
      prompts: {
        perMinute: 5,
        cost: ({ body }: FastifyRequest<Chat>) => body.prompts.length,
        authentication: tenantOf
      }
    }
  })
  await proxied.quota.charge({ tokens: 1 })
  app.post<Chat>('/typed', async (request, reply) => {
    await request.quota.charge(null)
    const permit = await app.quotaAcquire(request, { default: 1, prompts: null })
    const sent: FastifyReply<Chat> = permit.refuse(reply)
    return sent.sent ? sent : app.quotaStanding(request, 'prompts')
  })
  app
    .withTypeProvider<Provider>()
    .post('/provided', { schema: { body: { of: { prompts: ['a'] } } } }, async (request) => {
      await request.quota.charge(request.body.prompts.length)
      await app.quotaAcquire(request, 'prompts')
      return app.quotaStanding(request)
    })
  // @ts-expect-error A request of Node is none of Fastify.
  app.addHook('onRequest', async ({ raw }) => raw.quota.charge(1))
}

/** A refusal is sent whatever the route declares about its own responses. */
export async function refuse (): Promise<void> {
  const app = Fastify()
  const secure = Fastify({ http2: true })
  await app.register(quotaPlugin)
  await secure.register(quotaPlugin)
  const answer = Type.Object({ answer: Type.String() })
  const error = Type.Object({ error: Type.String() })
  app.get<{ Reply: { answer: string } }>('/typed', async (request, reply) => {
    const permit = await app.quotaAcquire(request, 'default')
    if (permit.refusal !== null) return permit.refuse(reply)
    return { answer: 'ran' }
  })
  app.get<{ Reply: number }>('/number', async (request, reply) =>
    (await app.quotaAcquire(request, 'default')).refuse(reply)
  )
  app.get<{ Reply: { 200: { answer: string }; '4xx': { error: string } } }>(
    '/by-status',
    async (request, reply) => {
      const permit = await app.quotaAcquire(request, 'default')
      if (permit.refusal !== null) return permit.refuse(reply)
      return reply.code(200).send({ answer: 'ran' })
    }
  )
  secure.get<{ Reply: { 200: { answer: string } } }>('/by-status', async (request, reply) =>
    (await secure.quotaAcquire(request, 'default')).refuse(reply)
  )
  app
    .withTypeProvider<TypeBoxTypeProvider>()
    .get('/provided', { schema: { response: { 200: answer } } }, async (request, reply) => {
      const permit = await app.quotaAcquire(request, 'default')
      if (permit.refusal !== null) return permit.refuse(reply)
      return { answer: 'ran' }
    })
    .get('/both', { schema: { response: { '2xx': answer, 429: error } } }, async (request, reply) =>
      (await app.quotaAcquire(request, 'default')).refuse(reply)
    )
}

/** Permits of a request, and of callers without one. */
export async function permits (request: SecureChat): Promise<number | null> {
  const app = Fastify()
  await app.register(quotaPlugin)
  const ofHook: QuotaPermit = request.quota
  const refusal: QuotaDecision | null = ofHook.refusal
  const granted: number | null = ofHook.granted('tokens')
  const chat = { least: 500, most: 1500 }
  const alice = localAuthentication('alice')
  const { signal } = new AbortController()
  const permit: QuotaPermit = await app.quotaAcquire(alice, { chat }, { reference: '7', signal })
  await app.quotaAcquire({ chat: alice, organisation: alice }, { chat: null, organisation: 1 })
  await app.quotaAcquire(request, ['chat'] as const)
  await permit.chargeUsage({ total_tokens: 256 })
  const resumed: QuotaPermit = app.quotaResume(await permit.handOver())
  const body: Readable = resumed.meter(null, { interrupted: ({ usage }) => usage })
  // @ts-expect-error A unit has a name.
  permit.granted()
  // @ts-expect-error A cost is a number or a range.
  await app.quotaAcquire(request, { chat: '256' })
  // @ts-expect-error Callers are authentications.
  await app.quotaAcquire({ chat: 'alice' }, 'chat')
  // @ts-expect-error An amount is a number.
  await permit.charge({ tokens: '256' })
  // @ts-expect-error It is the permit of the hook.
  request.quota = permit
  return refusal?.limit ?? granted ?? body.readableLength
}

/** Functions for the requests of a server with HTTP/2, of a typed route, and of any route. */
export const annotated: readonly QuotaOptions[] = [
  { authentication: (request: SecureRequest) => localAuthentication(request.id) },
  { authentication: async ({ headers }: SecureChat) => localAuthentication(headers['x-tenant']) },
  { authentication: (request) => authenticate(request) },
  { authentication: ({ raw, server }) => (raw.complete && server.prefix === '' ? null : null) },
  {
    refusalBody: (_decision, request: SecureRequest) => ({
      contentType: 'text/plain',
      body: request.id
    }),
    quotas: {
      chat: {
        perMonth: { tokens: 5 },
        cost: ({ body }: SecureChat) => ({ least: 1, most: body.prompts.length }),
        unreported: ({ headers }: SecureRequest) => Number(headers['content-length']),
        timeZone: (authentication) => (authentication.kind === 'local' ? 'Asia/Tokyo' : 'UTC'),
        startsOn: ({ account }) => (account === 'monthly' ? 1 : 17),
        startsAt: '06:00'
      }
    }
  },
  // @ts-expect-error The result is no authentication.
  { authentication: (request: SecureRequest) => request.id },
  // @ts-expect-error The result is no body.
  { refusalBody: (_decision, request: SecureRequest) => request.id }
]

function authenticate ({ id }: FastifyRequest) {
  return localAuthentication(id)
}
