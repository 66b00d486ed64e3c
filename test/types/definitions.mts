// Definitions of quotas. Those in `mistakes` must not compile: each comment says which mistake the
// compiler must report in the next line.
import type { FastifyRequest } from 'fastify'
import type {
  Amount,
  CallerLimit,
  Limit,
  QuotaDefinition,
  QuotaOptions
} from 'fastify-llm-quota'

/** With `exactOptionalPropertyTypes`, an option can be undefined, unless Fastify has it, too. */
export const unset: QuotaOptions = {
  operations: undefined,
  store: undefined,
  preferences: undefined,
  preferenceTimeout: undefined,
  quotas: undefined,
  perMinute: undefined,
  dotenv: undefined,
  authentication: undefined,
  rateLimitHeaders: undefined,
  refusalBody: undefined,
  mode: undefined
}

const configured: number | undefined = [5, undefined].at(0)
const estimate = ({ headers }: FastifyRequest): number => Number(headers['content-length'])

const ofPlan: CallerLimit = ({ authenticated }) => (authenticated ? 5 : 1)
const limitOfAnyKind: Limit = [5, ofPlan].at(0) ?? 1
export const amounts: readonly Amount[] = [limitOfAnyKind, { tokens: limitOfAnyKind }]

export const definitions: readonly QuotaDefinition[] = [
  {},
  { perMinute: configured },
  { perMinute: configured, cost: 2, timeZone: undefined },
  { perDay: { tokens: 5 }, cost: estimate, unreported: 7, timeZone: 'Europe/Berlin' },
  { perMonth: { microdollars: 5 }, unreported: estimate },
  { perMonth: 5, timeZone: 'Asia/Tokyo', mode: 'shadow' },
  { perMonth: 5, timeZone: ({ kind }) => (kind === 'token' ? 'Asia/Tokyo' : 'UTC') },
  { perDay: { tokens: 5 }, cost: { least: 1, most: 5 } },
  { perDay: { tokens: 5 }, cost: (request) => ({ least: 0, most: estimate(request) }) },
  { perMinute: 5, cost: (request) => estimate(request) },
  { perHour: 5, perMinute: undefined },
  { perWeek: 5, timeZone: 'Asia/Tokyo' },
  { perWeek: { tokens: 5 }, timeZone: undefined, window: undefined },
  { limit: 5, window: 5000, cost: 2 },
  { limit: { tokens: 5 }, window: 5000, cost: { least: 1, most: 5 }, unreported: 7 },
  { perMinute: (caller) => (caller.kind === 'token' ? 5 : 1), cost: 2 },
  { perDay: { tokens: async ({ kind }) => (kind === 'token' ? 5 : 1) }, unreported: 7 },
  { limit: ofPlan, window: 5000 },
  { limit: { tokens: ofPlan }, window: 5000 },
  { concurrent: ofPlan },
  { concurrent: 5 }
]

export const mistakes: readonly QuotaDefinition[] = [
  // @ts-expect-error Every day begins a window of a day.
  { perDay: 5, startsOn: 17 },
  // @ts-expect-error An hour has no time of day.
  { perHour: 5, startsAt: '06:00' },
  // @ts-expect-error That is no day of the week.
  { perWeek: 5, startsOn: 'mondays' },
  // @ts-expect-error One limit.
  { perMinute: 5, perDay: 5 },
  // @ts-expect-error One limit.
  { perMinute: { tokens: 5 }, concurrent: 5 },
  // @ts-expect-error A place always costs 1.
  { concurrent: 5, cost: 2 },
  // @ts-expect-error Requests count without a report.
  { perMinute: 5, unreported: 2 },
  // @ts-expect-error Also by default.
  { unreported: 2 },
  // @ts-expect-error Also by default.
  { perMinute: undefined, cost: { least: 1, most: 5 } },
  // @ts-expect-error A range is for another unit.
  { perMinute: 5, cost: { least: 1, most: 5 } },
  // @ts-expect-error Also from a function.
  { perMinute: 5, cost: () => ({ least: 1, most: 5 }) },
  // @ts-expect-error A promise is no time zone.
  { perDay: 5, timeZone: async () => 'UTC' },
  // @ts-expect-error Minutes are the same in each time zone.
  { perMinute: 5, timeZone: 'Asia/Tokyo' },
  // @ts-expect-error As are hours.
  { perHour: { tokens: 5 }, timeZone: 'Asia/Tokyo' },
  // @ts-expect-error As are windows of the host's own length.
  { limit: 5, window: 5000, timeZone: 'Asia/Tokyo' },
  // @ts-expect-error A limit without a period needs a window.
  { limit: 5 },
  // @ts-expect-error A window needs its limit.
  { window: 5000 },
  // @ts-expect-error A day has its length.
  { perDay: 5, window: 5000 },
  // @ts-expect-error Places have no window.
  { concurrent: 5, window: 5000 },
  // @ts-expect-error One limit.
  { limit: 5, window: 5000, perWeek: 5 },
  // @ts-expect-error A window is a number of milliseconds.
  { limit: 5, window: '5h' },
  // @ts-expect-error A function returns a number.
  { perMinute: () => '5' },
  // @ts-expect-error Also in a unit.
  { perDay: { tokens: async () => undefined } },
  // @ts-expect-error It gets the authentication and no request.
  { perMinute: (request: FastifyRequest) => request.url.length },
  // @ts-expect-error Places have no unit.
  { concurrent: { tokens: 5 } },
  // @ts-expect-error A limit in a unit is an object.
  { tokensPerMinute: 5 }
]
