import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import { logFailure } from '../log.js'
import { attempt, forAll, proceed, promised } from '../promises.js'
import { acquireSideBySide } from '../store/side-by-side.js'
import { assertAcquisitions, type Acquisition, type Demand, type QuotaStore } from '../store/store.js'
import type { Match } from '../subject/request-matcher.js'
import type { QuotaDecision } from './decision.js'
import type { Ledger } from './ledger.js'
import type { Quota } from './quota.js'
import { Ruling, type GivenCosts } from './ruling.js'

/** What was decided on a request. */
export interface Verdict {
  /** One for each quota, in their order. */
  readonly rulings: readonly Ruling[]
  /** The decisions to publish: those of an admitted request, or the one that a request is refused for. */
  readonly decisions: readonly QuotaDecision[]
  /** What the request is refused for; null if it is admitted. */
  readonly refusal: Refusal | null
}

/** A decision that a request is refused for. */
export interface Refusal {
  /** Null if the mark of the route failed. */
  readonly quota: Quota | null
  readonly decision: QuotaDecision
}

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
export function decide (
  matches: readonly Match<Quota>[], request: FastifyRequest, ledger: Ledger, costs?: GivenCosts
): Verdict | Promise<Verdict> {
  const rulings = matches.map((match) => new Ruling(match))
  return proceed(forAll(rulings, (ruling) => ruling.prepare(rulings, request, costs)), () => {
    return proceed(askStores(rulings, request, ledger), (refusal) => {
      return { rulings, refusal, decisions: refusal === null ? rulings.map(({ decision }) => decision) : [refusal.decision] }
    })
  })
}

/** Returns the verdict on a request whose mark failed: it is refused, unless all quotas are in shadow mode. */
export function undecided (quotas: readonly Quota[], { method, routeOptions }: FastifyRequest): Verdict {
  const enforced = quotas.some(({ isEnforced }) => isEnforced)
  const decision: QuotaDecision = {
    outcome: 'unavailable',
    quota: null,
    unit: 'requests',
    window: null,
    reason: 'mark',
    operation: { method, path: String(routeOptions.url) },
    enforced,
    limit: 0,
    callerKey: null,
    count: null,
    windowRemaining: null,
    overflow: false
  }
  return { rulings: [], decisions: [decision], refusal: enforced ? { quota: null, decision } : null }
}

/**
 * Asks the stores of the enforced quotas in one step. If all of them admit the request, asks those of shadow quotas, each on its own.
 *
 * @returns The ruling to refuse the request for; null if it is admitted.
 */
function askStores (rulings: readonly Ruling[], request: FastifyRequest, ledger: Ledger): Ruling | null | Promise<Ruling | null> {
  if (rulings.every(isAskedFirst)) return proceed(acquire(rulings, request, ledger), () => refusalAmong(rulings))
  const refusal = refusalAmong(rulings)
  if (refusal !== null) return refusal
  return proceed(acquire(rulings.filter(isAskedFirst), request, ledger), () => {
    const refusal = refusalAmong(rulings)
    return refusal ?? proceed(forAll(rulings, (ruling) => isAsked(ruling) ? acquire([ruling], request, ledger) : undefined), () => null)
  })
}

/** A ruling that a store is asked for. */
type Asked = Ruling & { readonly demand: Demand }

function isAsked (ruling: Ruling): ruling is Asked {
  return !ruling.isDecided
}

function isAskedFirst (ruling: Ruling): ruling is Asked {
  return isAsked(ruling) && ruling.quota.isEnforced
}

type Acquisitions = readonly (Acquisition | null)[]

/** Asks the stores of quotas in one step. Those that were not asked, because another one is known to have no room, remain undecided. */
function acquire (asked: readonly Asked[], request: FastifyRequest, ledger: Ledger): void | Promise<void> {
  if (asked.length === 0) return
  const demands = asked.map(({ demand }) => demand)
  const stores = asked.map(({ quota }) => quota.store)
  const acquired = acquireSideBySide<QuotaStore>(demands, stores, {
    acquire: (store, demands) => attempt<Acquisitions>(() => acquireFrom(store, demands, request), (error) => {
      const counters = demands.map(({ counters }) => counters)
      logFailure(request.log, error, 'the quota store failed; the request is not counted', { counters })
      for (const ruling of asked) if (ruling.quota.store === store) ruling.decide(null)
      return demands.map(() => null)
    }),
    release: (store, acquisition, amount) => {
      ledger.track(attempt<void>(() => promised(store.release?.(acquisition, amount)), (error) => {
        logFailure(request.log, error, 'what a refused request has counted could not be released')
      }))
    }
  })
  return proceed(acquired, (acquisitions) => {
    for (let index = 0; index < asked.length; index++) {
      const acquisition = acquisitions[index] ?? null
      if (acquisition !== null) asked[index]?.decide(acquisition)
    }
  })
}

function acquireFrom (store: QuotaStore, demands: readonly Demand[], request: FastifyRequest): Acquisitions | Promise<Acquisitions> {
  const acquired = storeDurations.hasSubscribers ? timed(request, () => store.acquire(demands)) : store.acquire(demands)
  return proceed(promised(acquired), (acquisitions) => {
    assertAcquisitions(acquisitions, demands)
    return acquisitions
  })
}

/** Runs a step of the store and publishes how long it took. */
function timed<Result> (request: FastifyRequest, step: () => Result | Promise<Result>): Result | Promise<Result> {
  const startedAt = performance.now()
  const publish = (): void => {
    storeDurations.publish({ request, seconds: (performance.now() - startedAt) / 1000 } satisfies StoreDuration)
  }
  return attempt(() => proceed(promised(step()), (result) => {
    publish()
    return result
  }), (error) => {
    publish()
    throw error
  })
}

/** Returns the ruling to refuse a request for, of equals the first one; null if there is none. */
function refusalAmong (rulings: readonly Ruling[]): Ruling | null {
  let refusal: Ruling | null = null
  for (const ruling of rulings) {
    if (ruling.refuses && (refusal === null || rank(ruling.decision) > rank(refusal.decision))) refusal = ruling
  }
  return refusal
}

/** A missing caller comes first, then requests in flight, the longest wait, and what failed: if not the store, then no store was asked. */
function rank ({ outcome, unit, windowRemaining }: QuotaDecision): number {
  if (outcome === 'unauthenticated') return Infinity
  if (outcome === 'unavailable') return -1
  return unit === 'requests-in-flight' ? Number.MAX_SAFE_INTEGER : Number(windowRemaining)
}
