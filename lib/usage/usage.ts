import { channel } from 'node:diagnostics_channel'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Ruling, Verdict } from '../decision/verdict.js'
import { shownError } from '../errors.js'
import { createUnreportedCharger } from './charges.js'
import { whenResponseEnds } from './response-end.js'

/** A message that a request has taken a place, or given it back. */
export interface QuotaPlaceChange {
  readonly request: FastifyRequest
  /** The name of the quota. */
  readonly quota: string
  /** 1 if the place was taken, -1 if it was given back. */
  readonly change: 1 | -1
}

/** The channel on which each `QuotaPlaceChange` of an admitted request is published. */
export const quotaPlaces = channel('fastify-llm-quota:place')

/**
 * Returns a function that follows an admitted request until its response closes, whatever ends it. Then it gives back the places of the
 * request and charges its token quotas if its tokens were not reported. The places of a refused request are given back at once.
 */
export function createUsageFollower (): (verdict: Verdict, request: FastifyRequest, reply: FastifyReply) => void {
  const chargeUnreported = createUnreportedCharger()

  return ({ rulings, refusal }, request, reply) => {
    if (refusal !== null) return leave(rulings, request)
    publishPlaces(rulings, request, 1)
    whenResponseEnds(request, reply, () => {
      leave(rulings, request)
      publishPlaces(rulings, request, -1)
      chargeUnreported(rulings, request)
    })
  }
}

/** Publishes that an admitted request has taken its places. */
function publishPlaces (rulings: readonly Ruling[], request: FastifyRequest, change: 1 | -1): void {
  if (!quotaPlaces.hasSubscribers) return
  for (const { place, quota } of rulings) if (place !== undefined) quotaPlaces.publish({ request, quota: quota.name, change } satisfies QuotaPlaceChange)
}

/** Gives back the places of a request. If the store fails, the place is free when its lease ends, or was never taken. */
function leave (rulings: readonly Ruling[], request: FastifyRequest): void {
  for (const { place, quota } of rulings) {
    if (place === undefined) continue
    const fail = (error: unknown): void => { request.log.error({ err: shownError(error), quota: quota.name }, 'a place of a request in flight could not be given back') }
    try {
      const left = place.leave?.()
      if (left !== undefined) Promise.resolve(left).catch(fail)
    } catch (error) {
      fail(error)
    }
  }
}
