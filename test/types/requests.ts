// What takes a request takes any: that of HTTP/2, of a typed route, or of a type provider.
// Compiled, and not run.
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
  type QuotaDefinition
} from '../../lib/index.js'

interface Chat {
  readonly Body: { readonly prompts: readonly string[] }
  readonly Headers: { readonly 'x-tenant': string }
}

interface Provider extends FastifyTypeProvider {
  validator: this['schema'] extends { readonly of: unknown } ? this['schema']['of'] : unknown
}

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
      await secure.quotaCharge(request, 1)
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
  await app.quotaCharge(proxied, { tokens: 1 })
  app.post<Chat>('/typed', async (request, reply) => {
    await app.quotaCharge(request, null)
    const permit = await app.quotaAcquire(request, ['default', 'prompts'], { default: 1 })
    const sent: FastifyReply<Chat> = permit.refuse(reply)
    return sent.sent ? sent : app.quotaStanding(request, 'prompts')
  })
  app
    .withTypeProvider<Provider>()
    .post('/provided', { schema: { body: { of: { prompts: ['a'] } } } }, async (request) => {
      await app.quotaCharge(request, request.body.prompts.length)
      await app.quotaAcquire(request, 'prompts')
      return app.quotaStanding(request)
    })
  // @ts-expect-error A request of Node is none of Fastify.
  app.addHook('onRequest', async ({ raw }) => app.quotaCharge(raw, 1))
}

const configured: number | undefined = [5, undefined].at(0)
const estimate = ({ headers }: FastifyRequest): number => Number(headers['content-length'])

export const definitions: readonly QuotaDefinition[] = [
  {},
  { perMinute: configured },
  { perMinute: configured, cost: 2, timeZone: undefined },
  { perDay: { tokens: 5 }, cost: estimate, unreported: 7, timeZone: 'Europe/Berlin' },
  { perMonth: { microdollars: 5 }, unreported: estimate },
  { perMonth: 5, timeZone: 'Asia/Tokyo', mode: 'shadow' },
  { perHour: 5, perMinute: undefined },
  { inFlight: 5 }
]

export const mistakes: readonly QuotaDefinition[] = [
  // @ts-expect-error One limit.
  { perMinute: 5, perDay: 5 },
  // @ts-expect-error One limit.
  { perMinute: { tokens: 5 }, inFlight: 5 },
  // @ts-expect-error A place always costs 1.
  { inFlight: 5, cost: 2 },
  // @ts-expect-error Requests count without a report.
  { perMinute: 5, unreported: 2 },
  // @ts-expect-error Minutes are the same in each time zone.
  { perMinute: 5, timeZone: 'Asia/Tokyo' },
  // @ts-expect-error As are hours.
  { perHour: { tokens: 5 }, timeZone: 'Asia/Tokyo' },
  // @ts-expect-error Places have no unit.
  { inFlight: { tokens: 5 } },
  // @ts-expect-error A limit in a unit is an object.
  { tokensPerMinute: 5 }
]
