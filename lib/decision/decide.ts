import type { FastifyRequest } from 'fastify'
import { Unidentified } from '../caller/caller-key.js'
import type { Caller } from '../caller/request-caller.js'
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

// The outcome is that of `decideTogether`. It saves a fifth of what the quota adds to an admitted request.
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

/** A quota of a request that is ready to ask its store. */
interface Draft {
  readonly match: Match<Quota>
  readonly limit: number
  /** Null if the limit is 0. */
  readonly caller: Caller | null
}

function decideTogether (matches: readonly Match<Quota>[], request: FastifyRequest): Verdict | Promise<Verdict> {
  return proceed(matches.map(({ quota }) => quota.limitOf(request)), (limits) => {
    return proceed(callersOf(matches, limits, request), (callers) => {
      const drafts = matches.map((match, index): Draft => ({ match, limit: Number(limits[index]), caller: callers[index] ?? null }))
      const withoutCaller = drafts.filter(({ match, caller }) => match.quota.isEnforced && caller instanceof Unidentified)
      return withoutCaller.length === 0 ? askAndCount(drafts, request) : verdictOn(withoutCaller.map((draft) => rulingOf(draft)))
    })
  })
}

/** Quotas with the same reader of authentications share the caller, whose key is then derived once. */
function callersOf (matches: readonly Match<Quota>[], limits: readonly number[], request: FastifyRequest): (Caller | null | Promise<Caller>)[] {
  const readers = matches.map(({ quota }, index) => limits[index] === 0 ? null : quota.callerOf)
  const callers: (Caller | null | Promise<Caller>)[] = []
  for (const reader of readers) callers.push(reader === null ? null : callers[readers.indexOf(reader)] ?? reader(request))
  return callers
}

/**
 * Takes the places of requests in flight and asks the other quotas without counting. Then counts, if none of them rejects. A single quota
 * that counts requests is asked and counted in one step, or, if the request is rejected, only asked how long its window lasts.
 */
function askAndCount (drafts: readonly Draft[], request: FastifyRequest): Verdict | Promise<Verdict> {
  const isSingle = drafts.filter(countsRequests).length === 1
  return proceed(drafts.map((draft) => isSingle && countsRequests(draft) ? null : ask(draft, 0, request)), (asked) => {
    const rulings = asked.filter((ruling) => ruling !== null)
    const refusal = refusalAmong(rulings)
    if (refusal?.decision.window === null) return verdictOn(rulings)
    return proceed(drafts.map((draft, index) => {
      const ruling = asked[index] ?? null
      const isCounted = refusal === null && countsRequests(draft) && ruling?.decision.outcome === 'admitted'
      return ruling === null || isCounted ? ask(draft, refusal === null ? 1 : 0, request) : ruling
    }), verdictOn)
  })
}

function countsRequests ({ match: { quota }, caller }: Draft): boolean {
  return quota.unit === 'requests' && typeof caller === 'string'
}

/** Asks the store of a quota if the request has a caller. */
function ask (draft: Draft, cost: number, request: FastifyRequest): Ruling | Promise<Ruling> {
  const { match: { quota }, limit, caller } = draft
  if (typeof caller !== 'string') return rulingOf(draft)
  const result: StoreResult | Promise<StoreResult> = quota.window === null ? enter(quota, caller, limit, request) : acquire(quota, caller, limit, cost, request)
  return result instanceof Promise ? result.then((result) => rulingOf(draft, result)) : rulingOf(draft, result)
}

function rulingOf ({ match, limit, caller }: Draft, result?: StoreResult): Ruling {
  return rulingOn(match, limit, caller, result)
}

/** Runs a step with values: in this turn of the event loop, or, if some are promises, when all of them are fulfilled. */
function proceed<Value, Result> (values: readonly (Value | Promise<Value>)[], step: (values: readonly Value[]) => Result | Promise<Result>): Result | Promise<Result> {
  return areKnown(values) ? step(values) : Promise.all(values).then(step)
}

function areKnown<Value> (values: readonly (Value | Promise<Value>)[]): values is readonly Value[] {
  return !values.some((value) => value instanceof Promise)
}
