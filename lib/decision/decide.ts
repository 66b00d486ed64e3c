import type { FastifyRequest } from 'fastify'
import { Unidentified, type UnidentifiedReason } from '../caller/caller-key.js'
import type { Caller, CallerReader } from '../caller/request-caller.js'
import { shownError } from '../errors.js'
import { assertAcquisition, assertEntry, type Acquisition, type Entry } from '../store/store.js'
import type { Match } from '../subject/request-matcher.js'
import type { QuotaDecision } from './decision.js'
import type { Quota } from './quota.js'
import { storeDurations, timed } from './store-durations.js'

/** One quota of a request, and its decision, which is complete once every step has run. */
export interface Ruling {
  readonly quota: Quota
  readonly decision: QuotaDecision
  /** The place that the request takes, in a quota of requests in flight that admitted it. */
  readonly place: Entry | undefined
}

/** The decisions on a request. */
export interface Verdict {
  /** One for each quota of the request, in their order. */
  readonly rulings: readonly [Ruling, ...Ruling[]]
  /** The decision that the request is refused for; null if it passes. */
  readonly refusal: QuotaDecision | null
}

/** A ruling that is not complete yet. */
interface Draft {
  readonly quota: Quota
  readonly decision: DraftDecision
  place: Entry | undefined
}

interface DraftDecision extends Pick<QuotaDecision, 'quota' | 'unit' | 'window' | 'operation' | 'enforced' | 'limit'> {
  outcome: QuotaDecision['outcome']
  reason: UnidentifiedReason | null
  callerKey: string | null
  count: number | null
  windowRemaining: number | null
  overflow: boolean
}

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
  return verdictOn(quotas.map((quota) => createDraft({ quota, operation }, 0, new Unidentified(null))))
}

/** A single quota that counts requests is asked and counted in one step. */
function decideAlone (match: Match<Quota>, request: FastifyRequest): Verdict | Promise<Verdict> {
  const limit = match.quota.limitOf(request)
  return limit instanceof Promise ? limit.then((limit) => decideWithLimit(match, request, limit)) : decideWithLimit(match, request, limit)
}

function decideWithLimit (match: Match<Quota>, request: FastifyRequest, limit: number): Verdict | Promise<Verdict> {
  const caller = limit === 0 ? null : match.quota.callerOf(request)
  return caller instanceof Promise ? caller.then((caller) => decideOnCaller(match, request, limit, caller)) : decideOnCaller(match, request, limit, caller)
}

function decideOnCaller (match: Match<Quota>, request: FastifyRequest, limit: number, caller: Caller | null): Verdict | Promise<Verdict> {
  const draft = createDraft(match, limit, caller)
  const acquired = draft.decision.callerKey === null ? undefined : acquire(draft, 1, request)
  return acquired instanceof Promise ? acquired.then(() => verdictOn([draft])) : verdictOn([draft])
}

function decideTogether (matches: readonly Match<Quota>[], request: FastifyRequest): Verdict | Promise<Verdict> {
  return proceed(all(matches.map((match) => withLimit(match, request))), (limited) => {
    return proceed(all(draftsOf(limited, request)), (drafts) => {
      const asked = drafts.filter(({ decision }) => decision.callerKey !== null)
      const isUncallable = refusalAmong(drafts.filter((draft) => !asked.includes(draft))) !== null
      return isUncallable ? verdictOn(drafts, drafts.filter((draft) => !asked.includes(draft))) : askAndCount(drafts, asked, request)
    })
  })
}

/**
 * Takes the places of requests in flight, and asks all other quotas without counting. Counts if none of them rejects. A single quota with a
 * window that counts requests is not asked before.
 */
function askAndCount (drafts: readonly Draft[], withCaller: readonly Draft[], request: FastifyRequest): Verdict | Promise<Verdict> {
  const windows = withCaller.filter(({ quota }) => quota.window !== null)
  const asked = withCaller.filter(({ quota }) => quota.unit !== 'requests' || windows.length > 1)
  return proceed(all(asked.map((draft) => draft.quota.window === null ? enter(draft, request) : acquire(draft, 0, request))), () => {
    if (refusalAmong(asked) !== null) return verdictOn(drafts, asked)
    const counted = windows.filter((draft) => draft.quota.unit === 'requests' && (draft.decision.outcome === 'admitted' || !asked.includes(draft)))
    return proceed(all(counted.map((draft) => acquire(draft, 1, request))), () => verdictOn(drafts))
  })
}

/** Runs a step with a value: in this turn of the event loop, or when the promise for the value is fulfilled. */
function proceed<Value, Result> (value: Value | Promise<Value>, step: (value: Value) => Result | Promise<Result>): Result | Promise<Result> {
  return value instanceof Promise ? value.then(step) : step(value)
}

function all<Value> (values: readonly (Value | Promise<Value>)[]): readonly Value[] | Promise<readonly Value[]> {
  const known = values.filter((value): value is Awaited<Value> & Value => !(value instanceof Promise))
  return known.length === values.length ? known : Promise.all(values)
}

interface LimitedMatch {
  readonly match: Match<Quota>
  readonly limit: number
}

function withLimit (match: Match<Quota>, request: FastifyRequest): LimitedMatch | Promise<LimitedMatch> {
  return proceed(match.quota.limitOf(request), (limit) => ({ match, limit }))
}

/** Quotas with the same reader of authentications share the caller, whose key is then derived once. */
function draftsOf (limited: readonly LimitedMatch[], request: FastifyRequest): (Draft | Promise<Draft>)[] {
  const callers = new Map<CallerReader, Caller | Promise<Caller>>()
  return limited.map(({ match, limit }) => {
    if (limit === 0) return createDraft(match, limit, null)
    const { callerOf } = match.quota
    const caller = callers.get(callerOf) ?? callerOf(request)
    callers.set(callerOf, caller)
    return proceed(caller, (caller) => createDraft(match, limit, caller))
  })
}

/** @param caller The caller; null if it was not determined because the limit is 0. */
function createDraft ({ quota, operation }: Match<Quota>, limit: number, caller: Caller | null): Draft {
  const reason = caller instanceof Unidentified ? caller.reason : null
  const decision: DraftDecision = {
    // A request is not admitted until the store has admitted it.
    outcome: caller === null ? 'disabled' : reason === null ? 'unavailable' : 'unauthenticated',
    quota: quota.name,
    unit: quota.unit,
    window: quota.window,
    reason,
    operation,
    enforced: quota.isEnforced,
    limit,
    callerKey: typeof caller === 'string' ? caller : null,
    count: null,
    windowRemaining: null,
    overflow: false
  }
  return { quota, decision, place: undefined }
}

function acquire (draft: Draft, cost: number, request: FastifyRequest): void | Promise<void> {
  const { quota: { store }, decision: { callerKey, limit } } = draft
  try {
    const acquired = storeDurations.hasSubscribers ? timed(request, () => store.acquire(String(callerKey), limit, cost)) : store.acquire(String(callerKey), limit, cost)
    return 'then' in acquired ? writeLater(draft, request, acquired, writeAcquisition) : writeAcquisition(draft, acquired)
  } catch (error) {
    fail(draft, request, error)
  }
}

function writeAcquisition ({ decision }: Draft, acquired: Acquisition): void {
  assertAcquisition(acquired)
  decision.outcome = acquired.admitted ? 'admitted' : 'rejected'
  decision.count = acquired.count
  decision.windowRemaining = acquired.windowRemaining
  decision.overflow = acquired.overflow
}

function enter (draft: Draft, request: FastifyRequest): void | Promise<void> {
  const { quota: { store }, decision: { callerKey, limit } } = draft
  try {
    const entry = timed(request, () => store.enter?.(String(callerKey), limit))
    return entry !== undefined && 'then' in entry ? writeLater(draft, request, entry, writeEntry) : writeEntry(draft, entry)
  } catch (error) {
    fail(draft, request, error)
  }
}

function writeEntry (draft: Draft, entry: Entry | undefined): void {
  assertEntry(entry)
  draft.place = entry.admitted ? entry : undefined
  draft.decision.outcome = entry.admitted ? 'admitted' : 'rejected'
  draft.decision.count = entry.count
}

async function writeLater<Result> (draft: Draft, request: FastifyRequest, result: PromiseLike<Result>, write: (draft: Draft, result: Result) => void): Promise<void> {
  try {
    write(draft, await result)
  } catch (error) {
    fail(draft, request, error)
  }
}

function fail ({ quota, decision }: Draft, request: FastifyRequest, error: unknown): void {
  decision.outcome = 'unavailable'
  decision.count = null
  decision.windowRemaining = null
  decision.overflow = false
  request.log.error({ err: shownError(error), quota: quota.name }, 'the quota store failed; the request is not counted')
}

/** @param decisive The drafts that can refuse the request; by default all of them. */
function verdictOn (drafts: readonly Draft[], decisive: readonly Draft[] = drafts): Verdict {
  // The fields of a draft are consistent with its outcome, which the compiler cannot check.
  return { rulings: drafts as unknown as Verdict['rulings'], refusal: refusalAmong(decisive) as QuotaDecision | null }
}

/** Returns the decision to refuse a request for: requests in flight first, then the longest wait; null if the request passes. */
function refusalAmong (drafts: readonly Draft[]): DraftDecision | null {
  let refusal: DraftDecision | null = null
  for (const { decision } of drafts) {
    if (callsForRefusal(decision) && (refusal === null || rank(decision) > rank(refusal))) refusal = decision
  }
  return refusal
}

function callsForRefusal ({ enforced, outcome }: DraftDecision): boolean {
  return enforced && outcome !== 'admitted' && outcome !== 'disabled'
}

function rank ({ outcome, window, windowRemaining }: DraftDecision): number {
  if (outcome !== 'rejected') return 0
  return window === null ? Infinity : Number(windowRemaining)
}
