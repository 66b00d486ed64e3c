import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import { logFailure } from '../log.js'
import { attempt, forAll, proceed, promised } from '../promises.js'
import { acquireSideBySide } from '../store/side-by-side.js'
import {
  acquireFrom,
  type Acquisition,
  type Acquisitions,
  type Demand,
  type QuotaStore
} from '../store/store.js'
import type { Match } from '../subject/request-matcher.js'
import { quotaDecisions, type QuotaDecision, type QuotaDecisionMessage } from './decision.js'
import type { Ledger } from './ledger.js'
import { Permit, type Refusal } from './permit.js'
import type { Quota } from './quota.js'
import { decisionsOf, Ruling, type GivenCosts } from './ruling.js'

/** How long a decision waited for the store, whether the store decided or failed. */
export interface StoreDuration {
  readonly request: FastifyRequest
  readonly seconds: number
}

/**
 * The channel on which each `StoreDuration` is published. Without a subscriber, no decision is
 * timed.
 */
export const storeDurations = channel('fastify-llm-quota:store-duration')

/**
 * Decides on a request (docs/rules.md, "Decision"): determines the limits, the callers and the
 * costs, asks the stores, and publishes the decisions. Creates no promise and stays in the current
 * turn of the event loop unless one of these steps is asynchronous.
 */
export function decide (
  matches: readonly Match<Quota>[],
  request: FastifyRequest,
  ledger: Ledger,
  costs?: GivenCosts
): Permit | Promise<Permit> {
  const rulings = matches.map(({ quota, operation }) => new Ruling(quota, operation))
  const prepared = forAll(rulings, (ruling) => ruling.prepare(rulings, request, costs))
  const asked = proceed(prepared, () => askStores(rulings, request, ledger))
  return ledger.track(
    proceed(asked, () => {
      const refusal = refusalAmong(rulings)
      return issue(
        request,
        ledger,
        rulings,
        refusal,
        refusal === null ? decisionsOf(rulings) : [refusal.decision]
      )
    })
  )
}

/** Decides on a request whose mark failed: it is refused, unless all quotas are in shadow mode. */
export function decideUnmatched (
  quotas: readonly Quota[],
  request: FastifyRequest,
  ledger: Ledger
): Permit {
  const { method, routeOptions } = request
  const enforced = quotas.some(({ isEnforced }) => isEnforced)
  const of = {
    quota: null,
    unit: 'requests',
    window: null,
    operation: { method, path: String(routeOptions.url) },
    enforced,
    limit: 0
  }
  const nothing = { callerKey: null, count: null, windowRemaining: null, overflow: false }
  const decision: QuotaDecision = { outcome: 'unavailable', reason: 'mark', ...of, ...nothing }
  return issue(request, ledger, [], enforced ? { quota: null, decision } : null, [decision])
}

/**
 * Creates the permit of a request, which is kept until everything is settled, and publishes its
 * decisions.
 */
function issue (
  request: FastifyRequest,
  ledger: Ledger,
  rulings: readonly Ruling[],
  refusal: Refusal | null,
  decisions: readonly QuotaDecision[]
): Permit {
  const permit = new Permit(request, ledger, rulings, refusal, decisions)
  if (permit.isOpen) ledger.open.add(permit)
  for (const decision of decisions) {
    if (quotaDecisions.hasSubscribers) {
      quotaDecisions.publish({ request, decision } satisfies QuotaDecisionMessage)
    }
    ledger.log.decided(decision, request)
  }
  return permit
}

type Asked = Ruling & { readonly demand: Demand }

function isAsked (ruling: Ruling): ruling is Asked {
  return ruling.demand !== null
}

/**
 * Asks the stores of the enforced quotas in one step. If all of them admit the request, asks those
 * of shadow quotas, each on its own.
 */
function askStores (
  rulings: readonly Ruling[],
  request: FastifyRequest,
  ledger: Ledger
): void | Promise<void> {
  const enforced: Asked[] = []
  const shadow: Asked[] = []
  for (const ruling of rulings) {
    if (isAsked(ruling)) (ruling.quota.isEnforced ? enforced : shadow).push(ruling)
  }
  if (refusalAmong(rulings) !== null) return
  return proceed(acquire(enforced, request, ledger), () => {
    if (refusalAmong(rulings) === null) {
      return forAll(shadow, (ruling) => acquire([ruling], request, ledger))
    }
  })
}

/**
 * Asks the stores of quotas in one step. Those that were not asked, because another one is known to
 * have no room, remain undecided.
 */
function acquire (
  asked: readonly Asked[],
  request: FastifyRequest,
  ledger: Ledger
): void | Promise<void> {
  if (asked.length === 0) return
  const ask = (
    store: QuotaStore,
    demands: readonly Demand[]
  ): Acquisitions | Promise<Acquisitions> => {
    const startedAt = storeDurations.hasSubscribers ? performance.now() : null
    const acquired = attempt<Acquisitions>(
      () => acquireFrom(store, demands),
      (error) => {
        const counters = demands.map(({ counters }) => counters)
        logFailure(request.log, error, 'the quota store failed; the request is not counted', {
          counters
        })
        for (const ruling of asked) {
          if (ruling.quota.store === store) ruling.decide(ruling.demand, null)
        }
        return demands.map(() => null)
      }
    )
    if (startedAt === null) return acquired
    return proceed(acquired, (acquisitions) => {
      storeDurations.publish({
        request,
        seconds: (performance.now() - startedAt) / 1000
      } satisfies StoreDuration)
      return acquisitions
    })
  }
  const release = (store: QuotaStore, acquisition: Acquisition, amount: number): void => {
    ledger.track(
      attempt<void>(
        () => promised(store.release?.(acquisition, amount)),
        (error) => {
          logFailure(request.log, error, 'what a refused request has counted could not be released')
        }
      )
    )
  }
  const demands = asked.map(({ demand }) => demand)
  const stores = asked.map(({ quota }) => quota.store)
  return proceed(acquireSideBySide(demands, stores, ask, release), (acquisitions) => {
    asked.forEach((ruling, index) => {
      const acquisition = acquisitions[index] ?? null
      if (acquisition !== null) ruling.decide(ruling.demand, acquisition)
    })
  })
}

/** Returns the decision to refuse a request for, of equals the first one; null if there is none. */
function refusalAmong (rulings: readonly Ruling[]): Refusal | null {
  let refusal: Refusal | null = null
  for (const { quota, decision } of rulings) {
    const refuses =
      decision !== null &&
      quota.isEnforced &&
      decision.outcome !== 'admitted' &&
      decision.outcome !== 'disabled'
    if (refuses && (refusal === null || rank(decision) > rank(refusal.decision))) {
      refusal = { quota, decision }
    }
  }
  return refusal
}

/**
 * A missing caller comes first, then requests in flight, the longest wait, and what failed: if not
 * the store, then no store was asked.
 */
function rank ({ outcome, unit, windowRemaining }: QuotaDecision): number {
  if (outcome === 'unauthenticated') return Infinity
  if (outcome === 'unavailable') return -1
  return unit === 'requests-in-flight' ? Number.MAX_SAFE_INTEGER : Number(windowRemaining)
}
