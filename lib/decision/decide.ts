import type { FastifyRequest } from 'fastify'
import { Unidentified } from '../caller/caller-key.js'
import type { Caller, CallerReader } from '../caller/request-caller.js'
import type { Match } from '../subject/request-matcher.js'
import { acquire, enter } from './ask.js'
import type { Quota } from './quota.js'
import { refusalAmong, rulingOn, verdictOn, verdictOnly, type Ruling, type StoreResult, type Verdict } from './verdict.js'

/**
 * Makes the decisions on a request (docs/rules.md, "Decision"): determines the limits and the caller, and asks the store. Creates no promise
 * and stays in the current turn of the event loop unless one of these steps is asynchronous.
 */
export function decide (matches: readonly Match<Quota>[], request: FastifyRequest): Verdict | Promise<Verdict> {
  const first = matches[0]
  return matches.length === 1 && first?.quota.unit === 'requests' ? decideAlone(first, request) : decideTogether(matches, request)
}

/** Returns the verdict on a request whose quotas cannot be determined: it is refused, unless all quotas are in shadow mode. */
export function undecided (quotas: readonly Quota[], { method, routeOptions }: FastifyRequest): Verdict {
  const operation = { method, path: String(routeOptions.url) }
  return verdictOn(quotas.map((quota) => rulingOn({ quota, operation }, 0, new Unidentified(null), undefined)))
}

/** A single quota that counts requests is asked and counted in one step. */
function decideAlone (match: Match<Quota>, request: FastifyRequest): Verdict | Promise<Verdict> {
  const { quota } = match
  const limit = quota.limitOf(request)
  if (typeof limit !== 'number') return decideLater(match, limit, request)
  const caller = limit === 0 ? null : quota.callerOf(request)
  if (typeof caller !== 'string') return caller instanceof Promise ? decideLater(match, limit, request, caller) : verdictOnly(rulingOn(match, limit, caller, undefined))
  const result = acquire(quota, caller, limit, 1, request)
  return result instanceof Promise ? decideLater(match, limit, request, caller, result) : verdictOnly(rulingOn(match, limit, caller, result))
}

/** Continues at the first step that is asynchronous. */
async function decideLater (match: Match<Quota>, limitOf: number | Promise<number>, request: FastifyRequest, callerOf?: Caller | null | Promise<Caller>, resultOf?: Promise<StoreResult>): Promise<Verdict> {
  const limit = await limitOf
  const caller = limit === 0 ? null : await (callerOf ?? match.quota.callerOf(request))
  const result = typeof caller === 'string' ? await (resultOf ?? acquire(match.quota, caller, limit, 1, request)) : undefined
  return verdictOnly(rulingOn(match, limit, caller, result))
}

/** A quota of a request, as far as the steps have come. */
interface Draft {
  readonly match: Match<Quota>
  readonly limit: number
  /** Null if the limit is 0. */
  readonly caller: Caller | null
  /** What the store returned last. */
  result: StoreResult
}

function decideTogether (matches: readonly Match<Quota>[], request: FastifyRequest): Verdict | Promise<Verdict> {
  return proceed(all(matches.map((match) => match.quota.limitOf(request))), (limits) => {
    return proceed(all(callersOf(matches, limits, request)), (callers) => {
      const drafts = matches.map((match, index): Draft => ({ match, limit: Number(limits[index]), caller: callers[index] ?? null, result: undefined }))
      const withoutCaller = rulingsOn(drafts.filter(({ caller }) => typeof caller !== 'string'))
      return refusalAmong(withoutCaller) === null ? askAndCount(drafts, request) : verdictOn(rulingsOn(drafts), withoutCaller)
    })
  })
}

/** Quotas with the same reader of authentications share the caller, whose key is then derived once. */
function callersOf (matches: readonly Match<Quota>[], limits: readonly number[], request: FastifyRequest): (Caller | null | Promise<Caller>)[] {
  const callers = new Map<CallerReader, Caller | Promise<Caller>>()
  return matches.map(({ quota: { callerOf } }, index) => {
    if (limits[index] === 0) return null
    const caller = callers.get(callerOf) ?? callerOf(request)
    callers.set(callerOf, caller)
    return caller
  })
}

/**
 * Takes the places of requests in flight, and asks the other quotas without counting. Then counts, if none of them rejects. A single quota
 * that counts requests is asked and counted in one step, or, if the request is rejected, only asked how long its window lasts.
 */
function askAndCount (drafts: readonly Draft[], request: FastifyRequest): Verdict | Promise<Verdict> {
  const withCaller = drafts.filter(({ caller }) => typeof caller === 'string')
  const counting = withCaller.filter(({ match }) => match.quota.unit === 'requests')
  const last = counting.length === 1 ? counting : []
  const asked = withCaller.filter((draft) => !last.includes(draft))
  return proceed(all(asked.map((draft) => ask(draft, 0, request))), () => {
    const rulings = rulingsOn(asked)
    const refusal = refusalAmong(rulings)
    if (refusal?.decision.window === null) return verdictOn(rulingsOn(drafts), rulings)
    const counted = counting.filter((draft) => last.includes(draft) || draft.result?.admitted === true)
    const rest = refusal === null ? counted : last
    return proceed(all(rest.map((draft) => ask(draft, refusal === null ? 1 : 0, request))), () => verdictOn(rulingsOn(drafts)))
  })
}

/** Asks the store of a quota for a request with a caller, and keeps the result. */
function ask (draft: Draft, cost: number, request: FastifyRequest): void | Promise<void> {
  const { match: { quota }, limit, caller } = draft
  const result: StoreResult | Promise<StoreResult> = quota.window === null ? enter(quota, String(caller), limit, request) : acquire(quota, String(caller), limit, cost, request)
  return proceed(result, (result) => { draft.result = result })
}

function rulingsOn (drafts: readonly Draft[]): Ruling[] {
  return drafts.map(({ match, limit, caller, result }) => rulingOn(match, limit, caller, result))
}

/** Runs a step with a value: in this turn of the event loop, or when the promise for the value is fulfilled. */
function proceed<Value, Result> (value: Value | Promise<Value>, step: (value: Value) => Result | Promise<Result>): Result | Promise<Result> {
  return value instanceof Promise ? value.then(step) : step(value)
}

function all<Value> (values: readonly (Value | Promise<Value>)[]): readonly Value[] | Promise<readonly Value[]> {
  const known = values.filter((value): value is Awaited<Value> & Value => !(value instanceof Promise))
  return known.length === values.length ? known : Promise.all(values)
}
