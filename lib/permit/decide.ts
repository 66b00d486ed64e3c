import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { Caller } from '../caller/request-caller.js'
import { logFailure } from '../log.js'
import { attempt, proceed, proceedAll, promised } from '../promises.js'
import { acquireSideBySide } from '../store/side-by-side.js'
import { assertAcquisitions, type Acquisition, type Demand, type QuotaStore } from '../store/store.js'
import type { Match } from '../subject/request-matcher.js'
import { refuses, type QuotaDecision } from './decision.js'
import type { Ledger } from './ledger.js'
import { decisionOf, questionOf, uncounted, type GivenCosts, type Question } from './question.js'
import type { Quota } from './quota.js'

/** One quota of a request: its decision, and what its store has counted. */
export interface Ruling {
  /** Null if the mark of the route failed. */
  readonly quota: Quota | null
  readonly decision: QuotaDecision
  readonly demand: Demand | null
  /** What the store returned; null if it was not asked or has failed. */
  readonly acquisition: Acquisition | null
}

/** What was decided on a request. */
export interface Verdict {
  /** One for each quota that was decided on, in their order. */
  readonly rulings: readonly Ruling[]
  /** The ruling that the request is refused for; null if it is admitted. */
  readonly refusal: Ruling | null
}

const none: readonly never[] = []

/** How long a decision waited for the store, whether the store decided or failed. */
export interface StoreDuration {
  readonly request: FastifyRequest
  readonly seconds: number
}

/** The channel on which each `StoreDuration` is published. Without a subscriber, no decision is timed. */
export const storeDurations = channel('fastify-llm-quota:store-duration')

/**
 * Decides on a request (docs/rules.md, "Decision"): determines the limits, the callers and the costs, and asks the stores. Creates no promise
 * and stays in the current turn of the event loop unless one of these steps is asynchronous.
 */
export function decide (matches: readonly Match<Quota>[], request: FastifyRequest, costs: GivenCosts, ledger: Ledger): Verdict | Promise<Verdict> {
  return proceedAll(matches.map(({ quota }) => quota.limitOf(request)), (limits) => {
    return proceedAll(callersOf(matches, limits, request), (callers) => {
      return askStores(matches.map((match, index) => questionOf(match, Number(limits[index]), callers[index] ?? null, request, costs)), request, ledger)
    })
  })
}

/** Returns the verdict on a request whose mark failed: it is refused, unless all quotas are in shadow mode. */
export function undecided (quotas: readonly Quota[], { method, routeOptions }: FastifyRequest): Verdict {
  const decision: QuotaDecision = {
    outcome: 'unavailable',
    quota: null,
    unit: 'requests',
    window: null,
    reason: 'mark',
    operation: { method, path: String(routeOptions.url) },
    enforced: quotas.some(({ isEnforced }) => isEnforced),
    limit: 0,
    callerKey: null,
    count: null,
    windowRemaining: null,
    overflow: false
  }
  const ruling = { quota: null, decision, demand: null, acquisition: null }
  return { rulings: [ruling], refusal: decision.enforced ? ruling : null }
}

/** Quotas with the same reader of authentications share the caller, whose key is then derived once. */
function callersOf (matches: readonly Match<Quota>[], limits: readonly number[], request: FastifyRequest): (Caller | null | Promise<Caller>)[] {
  const callers: (Caller | null | Promise<Caller>)[] = []
  for (const { quota } of matches) {
    const index = callers.length
    const same = matches.findIndex((match, other) => match.quota.callerOf === quota.callerOf && limits[other] !== 0)
    callers.push(limits[index] === 0 ? null : same < index ? callers[same] ?? null : quota.callerOf(request))
  }
  return callers
}

function askStores (questions: readonly Question[], request: FastifyRequest, ledger: Ledger): Verdict | Promise<Verdict> {
  const asked = questions.filter(isAskedFirst)
  const others = asked.length === questions.length ? none : questions.filter((question) => !isAskedFirst(question))
  const unasked = others === none ? none : others.filter(({ quota }) => quota.isEnforced).map((question) => rulingOn(question, null))
  const refusal = refusalAmong(unasked)
  if (refusal !== null) return { rulings: [refusal], refusal }
  return proceed(acquire(asked, request, ledger), (rulings) => {
    const refusal = refusalAmong(rulings)
    if (refusal !== null || others === none) return { rulings, refusal }
    const observed = others.filter(({ quota }) => !quota.isEnforced).map((question) => isAsked(question) ? acquire([question], request, ledger) : [rulingOn(question, null)])
    return proceedAll(observed, (shadow) => {
      const all = [...rulings, ...unasked, ...shadow.flat()]
      return { rulings: questions.flatMap(({ quota }) => all.find((ruling) => ruling.quota === quota) ?? []), refusal: null }
    })
  })
}

/** Asks the stores of quotas in one step. Quotas that were not asked, because another one is known to have no room, have no ruling. */
function acquire (questions: readonly Asked[], request: FastifyRequest, ledger: Ledger): readonly Ruling[] | Promise<readonly Ruling[]> {
  if (questions.length === 0) return []
  const demands = questions.map(({ demand }) => demand)
  const stores = questions.map(({ quota }) => quota.store)
  const asked = attempt<Acquisitions | StoreFailure>(() => acquireSideBySide(demands, stores, {
    acquire: (store, demands) => askStore(store, demands, request),
    release (store, acquisition, amount) { ledger.all([giveBack(store, acquisition, amount, request)]) }
  }), (error) => error instanceof StoreFailure ? error : new StoreFailure(null))
  return proceed(asked, (result) => result instanceof StoreFailure
    ? questions.filter(({ quota }) => result.store === null || quota.store === result.store).map((question) => rulingOn(question, null))
    : rulingsOn(questions, result))
}

type Acquisitions = readonly (Acquisition | null)[]

/** A question that a store can answer. */
type Asked = Question & { readonly demand: Demand }

function isAsked (question: Question): question is Asked {
  return question.demand !== null
}

/** Whether a question is asked together with others. Shadow quotas are asked after these have admitted, each on its own. */
function isAskedFirst (question: Question): question is Asked {
  return question.quota.isEnforced && question.demand !== null
}

class StoreFailure {
  /** Null if all stores are taken to have failed. */
  readonly store: QuotaStore | null

  constructor (store: QuotaStore | null) {
    this.store = store
  }
}

function askStore (store: QuotaStore, demands: readonly Demand[], request: FastifyRequest): Acquisitions | Promise<Acquisitions> {
  return attempt(() => proceed(promised(storeDurations.hasSubscribers ? timed(request, () => store.acquire(demands)) : store.acquire(demands)), (acquisitions) => {
    assertAcquisitions(acquisitions, demands)
    return acquisitions
  }), (error) => {
    logFailure(request.log, error, 'the quota store failed; the request is not counted', { counters: demands.map(({ counters }) => counters) })
    throw new StoreFailure(store)
  })
}

function giveBack (store: QuotaStore, acquisition: Acquisition, amount: number, request: FastifyRequest): void | Promise<void> {
  return attempt<void>(() => promised(store.release?.(acquisition, amount)), (error) => {
    logFailure(request.log, error, 'what a refused request has counted could not be given back')
  })
}

/** Runs a step of the store and publishes how long it took. */
function timed<Result> (request: FastifyRequest, step: () => Result | Promise<Result>): Result | Promise<Result> {
  const startedAt = performance.now()
  const publish = (): void => { storeDurations.publish({ request, seconds: (performance.now() - startedAt) / 1000 } satisfies StoreDuration) }
  let result: Result | Promise<Result> | undefined
  try {
    result = promised(step())
    return result
  } finally {
    if (result instanceof Promise) result.then(publish, publish)
    else publish()
  }
}

function rulingsOn (questions: readonly Question[], acquisitions: Acquisitions): Ruling[] {
  const rulings: Ruling[] = []
  for (let index = 0; index < questions.length; index++) {
    const question = questions[index]
    const acquisition = acquisitions[index] ?? null
    if (question !== undefined && acquisition !== null) rulings.push(rulingOn(question, acquisition))
  }
  return rulings
}

function rulingOn (question: Question, acquisition: Acquisition | null): Ruling {
  const { quota, demand } = question
  return { quota, decision: acquisition === null ? uncounted(question) : decisionOf(question, acquisition), demand, acquisition }
}

/** Returns the ruling to refuse a request for; null if there is none. Of equals, the first one. */
function refusalAmong (rulings: readonly Ruling[]): Ruling | null {
  let refusal: Ruling | null = null
  for (const ruling of rulings) {
    if (refuses(ruling.decision) && (refusal === null || rank(ruling.decision) > rank(refusal.decision))) refusal = ruling
  }
  return refusal
}

/** A missing caller comes first, then what failed before a store was asked, requests in flight, the longest wait, and a store that failed. */
function rank ({ outcome, reason, unit, windowRemaining }: QuotaDecision): number {
  if (outcome === 'unauthenticated') return Infinity
  if (outcome === 'unavailable') return reason === 'store' ? -1 : Number.MAX_VALUE
  return unit === 'requests-in-flight' ? Number.MAX_SAFE_INTEGER : Number(windowRemaining)
}
