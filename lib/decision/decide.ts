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
  return proceed(matches.map(({ quota }) => quota.limitOf(request)), (limits) => {
    return proceed(callersOf(matches, limits, request), (callers) => {
      const drafts = matches.map((match, index): Draft => ({ match, limit: Number(limits[index]), caller: callers[index] ?? null, result: undefined }))
      return drafts.some(isWithoutCaller) ? verdictOn(rulingsOn(drafts), rulingsOn(drafts.filter(isWithoutCaller))) : askAndCount(drafts, request)
    })
  })
}

function isWithoutCaller ({ match: { quota }, caller }: Draft): boolean {
  return quota.isEnforced && caller instanceof Unidentified
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
  const counting = drafts.filter(({ match, caller }) => match.quota.unit === 'requests' && typeof caller === 'string')
  const last = counting.length === 1 ? counting[0] : undefined
  return proceed(drafts.map((draft) => draft === last ? undefined : ask(draft, 0, request)), () => {
    const asked = rulingsOn(drafts.filter((draft) => draft !== last))
    const refusal = refusalAmong(asked)
    if (refusal?.decision.window === null) return verdictOn(rulingsOn(drafts), asked)
    const rest = last !== undefined ? [last] : refusal === null ? counting.filter(({ result }) => result?.admitted === true) : []
    return proceed(rest.map((draft) => ask(draft, refusal === null ? 1 : 0, request)), () => verdictOn(rulingsOn(drafts)))
  })
}

/** Asks the store of a quota if the request has a caller, and keeps the result. */
function ask (draft: Draft, cost: number, request: FastifyRequest): void | Promise<void> {
  const { match: { quota }, limit, caller } = draft
  if (typeof caller !== 'string') return
  const result: StoreResult | Promise<StoreResult> = quota.window === null ? enter(quota, caller, limit, request) : acquire(quota, caller, limit, cost, request)
  if (!(result instanceof Promise)) draft.result = result
  else return result.then((result) => { draft.result = result })
}

function rulingsOn (drafts: readonly Draft[]): Ruling[] {
  return drafts.map(({ match, limit, caller, result }) => rulingOn(match, limit, caller, result))
}

/** Runs a step with values: in this turn of the event loop, or, if some are promises, when all of them are fulfilled. */
function proceed<Value, Result> (values: readonly (Value | Promise<Value>)[], step: (values: readonly Value[]) => Result | Promise<Result>): Result | Promise<Result> {
  return areKnown(values) ? step(values) : Promise.all(values).then(step)
}

function areKnown<Value> (values: readonly (Value | Promise<Value>)[]): values is readonly Value[] {
  return !values.some((value) => value instanceof Promise)
}
