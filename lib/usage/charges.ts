import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { Ruling } from '../decision/verdict.js'
import { findVerdict } from '../decision/request-state.js'
import { ignoreRejection, isPromise, shown, shownError } from '../errors.js'
import { assertAcquisition, type Acquisition } from '../store/store.js'

/** A message that model tokens were charged to a token quota. */
export interface QuotaCharge {
  readonly request: FastifyRequest
  /** The name of the quota. */
  readonly quota: string
  readonly tokens: number
  /** Whether the store failed, so that the tokens are not counted. */
  readonly failed: boolean
}

/** The channel on which each `QuotaCharge` is published. */
export const quotaCharges = channel('fastify-llm-quota:charge')

/**
 * Charges the model tokens that a request has used to each of its token quotas, in the window that is open then. Call it as often as you like,
 * also after the response has ended. Does nothing if the request has no token quota or was not admitted.
 *
 * @param tokens A safe integer of at least 0.
 * @returns A promise that is fulfilled when the store has counted the tokens. It never rejects: if the store fails, the error is logged.
 * @throws {RangeError} If `tokens` is not a safe integer of at least 0.
 */
export type QuotaCharger = (request: FastifyRequest, tokens: number) => Promise<void>

// The greatest limit makes a store count without asking.
const withoutLimit = Number.MAX_SAFE_INTEGER

// How often requests without a report are warned of, in milliseconds.
const warningInterval = 60_000

const settled = Promise.resolve()

/** The function for the decorator `fastify.quotaCharge`. */
export function quotaCharge (request: FastifyRequest, tokens: number): Promise<void> {
  if (!Number.isSafeInteger(tokens) || tokens < 0) throw new RangeError(`tokens must be a safe integer of at least 0; got ${shown(tokens)}`)
  const verdict = findVerdict(request)
  if (verdict === undefined || verdict instanceof Promise || verdict.refusal !== null) return settled
  const charges = verdict.rulings.map((ruling) => {
    if (ruling.usage !== undefined) ruling.usage.reported = (ruling.usage.reported ?? 0) + tokens
    return charge(ruling, request)
  })
  return charges.some((each) => each instanceof Promise) ? Promise.all(charges).then(() => {}) : settled
}

/** Returns a function that charges `unreportedTokens` when the response of a request has closed and its tokens were not reported. */
export function createUnreportedCharger (): (rulings: readonly Ruling[], request: FastifyRequest) => void {
  let warnedAt = -Infinity

  function warn (request: FastifyRequest, quota: string, tokens: number): void {
    if (performance.now() - warnedAt < warningInterval) return
    warnedAt = performance.now()
    request.log.warn({ quota, tokens }, `a response has closed, and its model tokens were not reported with fastify.quotaCharge; unreportedTokens, ${tokens}, is charged; this warning is logged at most once a minute`)
  }

  return (rulings, request) => {
    for (const ruling of rulings) {
      const { quota, usage } = ruling
      if (usage?.reported !== null) continue
      const tokens = unreportedTokens(quota, request)
      if (tokens === null) continue
      usage.unreported = tokens
      warn(request, quota.name, tokens)
      charge(ruling, request)
    }
  }
}

/** Returns null if the host's function fails, which is logged. */
function unreportedTokens ({ name, unreportedTokens }: Ruling['quota'], request: FastifyRequest): number | null {
  try {
    const tokens = typeof unreportedTokens === 'function' ? unreportedTokens(request) : unreportedTokens
    if (Number.isSafeInteger(tokens) && tokens >= 0) return tokens
    ignoreRejection(tokens)
    throw new RangeError(`unreportedTokens must be a safe integer of at least 0; got ${shown(tokens)}`)
  } catch (error) {
    request.log.error({ err: shownError(error), quota: name }, 'unreportedTokens failed; no model tokens are charged for the request')
    return null
  }
}

/** Charges what is not charged yet: the greater of what was reported and unreported. A promise only if the store returned one. */
function charge ({ quota, decision, usage }: Ruling, request: FastifyRequest): void | Promise<void> {
  if (usage === undefined) return
  const due = Math.max(usage.reported ?? 0, usage.unreported)
  const tokens = due - usage.charged
  if (tokens === 0) return
  usage.charged = due
  const end = (failed: boolean): void => {
    if (quotaCharges.hasSubscribers) quotaCharges.publish({ request, quota: quota.name, tokens, failed } satisfies QuotaCharge)
  }
  const count = (acquisition: Acquisition): void => {
    assertAcquisition(acquisition)
    end(false)
  }
  const fail = (error: unknown): void => {
    request.log.error({ err: shownError(error), quota: quota.name, tokens }, 'the quota store failed; the model tokens are not charged')
    end(true)
  }
  try {
    const acquired = quota.store.acquire(String(decision.callerKey), withoutLimit, tokens)
    if (isPromise(acquired)) return Promise.resolve(acquired).then(count).catch(fail)
    count(acquired)
  } catch (error) {
    fail(error)
  }
}
