import type { OfRequest, OfRequestOrNone } from '../any-request.js'
import type { Authentication } from '../caller/authentication.js'
import type { AuthenticationReader } from '../caller/request-caller.js'
import type { DotenvOptions } from '../limit/configuration.js'
import type { LimitName } from '../limit/limit-kinds.js'
import type { PreferenceReader } from '../limit/preferences.js'
import type { Start } from '../limit/window-start.js'
import type { Cost } from '../permit/cost.js'
import type { FromUsage } from '../permit/from-usage.js'
import type { RefusalBodyWriter } from '../refusal/refusal.js'
import type { QuotaStore } from '../store/store.js'
import type { Operation } from '../subject/operation.js'

/**
 * Options of `fastify.register(quotaPlugin, options)`. All are optional. Fastify's own `register`
 * options are also accepted.
 */
export interface QuotaOptions {
  /**
   * The deployment context prefix. Default: the route prefix of the Fastify instance on which the
   * plugin is registered. It cannot be undefined, because it is one of Fastify's options, too.
   */
  readonly prefix?: string
  /**
   * The operations that the quota protects, beside the routes marked with its name. Default
   * `protectedOperations`; in `quotas`, none.
   */
  readonly operations?: readonly Operation[] | undefined
  /**
   * The store of the counters. Default: the host's `fastify.quotaStore`, or a new
   * `MemoryQuotaStore`; in `quotas`, that of the plugin.
   */
  readonly store?: QuotaStore | undefined
  /**
   * The reader of runtime preferences; `false` for none. Default: the host's `fastify.preferences`,
   * if any, when the server is ready.
   */
  readonly preferences?: PreferenceReader | false | undefined
  /**
   * The maximum time for an asynchronous preference reader, and for an asynchronous function that
   * determines a limit or a cost, in milliseconds, an integer. Default 1000.
   */
  readonly preferenceTimeout?: number | undefined
  /**
   * Additional quotas by name: at most 32 characters from a-z, 0-9 and "-", beginning with a
   * letter, and not `default`. Default: none.
   */
  readonly quotas?: Readonly<Record<string, QuotaDefinition>> | undefined
  /** The configured limit if `SERVICE_RATE_LIMIT_PER_MINUTE` is not set, an integer. Default 10. */
  readonly perMinute?: number | undefined
  /**
   * `true`, or the options of a file to read the environment variables from, as `dotenv` of
   * `@fastify/env`. Default: none.
   */
  readonly dotenv?: DotenvOptions | undefined
  /**
   * Returns whom to count: the authentication of a request, or a promise of it, which must settle.
   * Default: `request.user`; in `quotas`, as in the plugin.
   */
  readonly authentication?: AuthenticationReader | undefined
  /**
   * Adds the headers `RateLimit-Policy` and `RateLimit` to responses to admitted or rejected
   * requests. Default: no such headers.
   */
  readonly rateLimitHeaders?: 'draft-10' | undefined
  /**
   * Returns the body of a refusal and its content type; the status and the other headers do not
   * change. Default: the quota's own body.
   */
  readonly refusalBody?: RefusalBodyWriter | undefined
  /**
   * In `shadow` mode, decisions are made, counted and published, but refuse nothing. Default
   * `enforce`; in `quotas`, as in the plugin.
   */
  readonly mode?: 'enforce' | 'shadow' | undefined
}

/**
 * The type of a limit that is a function: returns what a caller may use, for example by its plan,
 * or a promise of it. It is called for every decision. An integer, of which 0 or less leaves
 * nothing, so that each request is rejected; or `Infinity`, which counts requests and rejects none.
 * If it throws or returns anything else, such as null, or if its promise rejects or does not settle
 * within `preferenceTimeout`, the response is a 503.
 */
export type CallerLimit = (authentication: Authentication) => number | Promise<number>

/** A limit: an integer, or a function that returns that of a caller. */
export type Limit = number | CallerLimit

/** A limit of requests, or of another unit, such as `{ tokens: 20_000 }`. */
export type Amount = Limit | Readonly<Record<string, Limit>>

/** A time zone, or a function that returns that of a caller. */
export type TimeZone = string | ((authentication: Authentication) => string)

/** The day on which windows begin, or a function that returns that of a caller. */
export type StartsOn = Start | ((authentication: Authentication) => Start)

/** The options that every quota has. */
interface CommonOptions extends Pick<
  QuotaOptions,
  'operations' | 'authentication' | 'mode' | 'store'
> {
  /**
   * `false` leaves the quota out of the headers of `rateLimitHeaders`, for example a limit of the
   * whole service.
   */
  readonly rateLimitHeaders?: false | undefined
  /**
   * How long a request waits for room before it is rejected, in milliseconds: a number from 1 to
   * 300,000, or one with a bound. Default: a request that has no room is rejected at once.
   */
  readonly wait?: number | Wait | undefined
}

/** How long requests of a quota wait for room, and how many. */
export interface Wait {
  /** How long a request waits, in milliseconds: a number from 1 to 300,000. */
  readonly timeout: number
  /**
   * How many requests can wait in this process, an integer of at least 1. Default 100. When so many
   * do, the newest request of the caller with the most is rejected.
   */
  readonly queue?: number | undefined
}

/** The windows of `perDay`, `perWeek` or `perMonth` as those of a time zone. */
interface TimeZoneOptions {
  /**
   * The windows are the days, weeks or months of this IANA time zone, or of the one that a function
   * of the caller's authentication returns, for example that of each organization. Default: UTC for
   * months, and if `startsOn` or `startsAt` is set; other days and weeks open with the first
   * request of a caller. If the function throws or returns anything else, the response is a 503.
   */
  readonly timeZone?: TimeZone | undefined
  /**
   * The local time at which windows begin, such as `06:00`. If a clock change skips it, the next
   * moment; if it comes twice, the first time. Default: midnight.
   */
  readonly startsAt?: string | undefined
}

/** The windows of `perWeek` or `perMonth` as those of a time zone. */
interface StartOptions extends TimeZoneOptions {
  /**
   * With `perWeek`, the day of the week on which windows begin. With `perMonth`, the day of the
   * month, from 1 to 31; in a month without that day, the last one. Or a function that returns that
   * of a caller, for example the day of its bill; if it throws or returns anything else, the
   * response is a 503. A start that changes takes effect on its first date after the end of the
   * open window. Default: Monday, and 1.
   */
  readonly startsOn?: StartsOn | undefined
}

/** What requests of a quota count that does not limit concurrent requests. */
interface Costs<Value> {
  /**
   * What a request counts when it is admitted, such as the items of a batch, or an estimate.
   * Default: 1 request, 0 of another unit. In another unit than requests it can be a range, of
   * which the request is granted as much as there is room for. A promise of it must settle within
   * `preferenceTimeout`.
   */
  readonly cost?: Value | OfRequest<Value | PromiseLike<Value>> | undefined
}

/** What requests of a quota count in another unit than requests. */
interface Reports {
  /**
   * What a request counts in the end if nothing was reported. If it is given, no warning says that
   * nothing was reported. Default: what it counted when it was admitted.
   */
  readonly unreported?: number | OfRequestOrNone<number> | undefined
  /**
   * Returns what a model's usage is in the unit of the quota, for example its price: what
   * `chargeUsage` and `meter` of a permit report in this quota. If it throws or returns no safe
   * integer of at least 0, the request counts what it was granted. Default for tokens: the total.
   */
  readonly fromUsage?: FromUsage | undefined
}

type Unset<Name extends string> = { readonly [Each in Name]?: undefined }

/** Exactly one limit, under its option. */
type OneLimit<Name extends LimitName, Value> = { readonly [Each in Name]: Value } & Unset<
  Exclude<LimitName, Name>
>

/** A window of the host's own length. */
interface OwnWindow {
  /** The length of the window of `limit`, in milliseconds: an integer from 1000 to 366 days. */
  readonly window: number
}

/** The options of windows that are not those of a time zone. */
type NoTimeZone = Unset<'timeZone' | 'startsOn' | 'startsAt'>

type InWindow<Value> =
  | (Unset<'window'> &
    NoTimeZone &
    (OneLimit<'perMinute', Value> | OneLimit<'perHour', Value>))
  | (Unset<'window' | 'startsOn'> & TimeZoneOptions & OneLimit<'perDay', Value>)
  | (Unset<'window'> &
    StartOptions &
    (OneLimit<'perWeek', Value> | OneLimit<'perMonth', Value>))
  | (NoTimeZone & OwnWindow & OneLimit<'limit', Value>)

/** The limit of a quota without one, which is one of requests. */
type DefaultLimit = Unset<'window'> &
  NoTimeZone &
  Partial<OneLimit<'perMinute', Limit | undefined>>

/**
 * One of the `quotas`. It has one limit: requests or another unit per minute, hour, day, week,
 * month or `window`, or how many concurrent requests a caller can have. Default `perMinute: 10`.
 * The limit is an integer, or a function that returns that of a caller. It applies if neither a
 * preference nor the environment variable sets another one; the variable must not be set beside a
 * function.
 */
export type QuotaDefinition = CommonOptions &
  (
    | ((InWindow<Limit> | DefaultLimit) & Costs<number> & Unset<keyof Reports>)
    | (InWindow<Readonly<Record<string, Limit>>> & Costs<Cost> & Reports)
    | (OneLimit<'concurrent', Limit> & NoTimeZone & Unset<'window' | 'cost' | keyof Reports>)
  )

/** A definition without the rules that combine its fields. */
export type CheckedDefinition = CommonOptions &
  StartOptions &
  Costs<Cost> &
  Reports & {
    readonly [Name in LimitName]?: Amount | undefined
  } & {
    readonly [Name in keyof OwnWindow]?: OwnWindow[Name] | undefined
  }
