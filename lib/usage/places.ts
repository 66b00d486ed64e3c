import { channel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { Ruling } from '../decision/verdict.js'
import { shownError } from '../errors.js'

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

/** Publishes that an admitted request has taken its places. */
export function publishPlaces (rulings: readonly Ruling[], request: FastifyRequest, change: 1 | -1): void {
  if (!quotaPlaces.hasSubscribers) return
  for (const { place, quota } of rulings) if (place !== undefined) quotaPlaces.publish({ request, quota: quota.name, change } satisfies QuotaPlaceChange)
}

/** Gives back the places of a request. If the store fails, the place is free when its lease ends, or was never taken. */
export function leave (rulings: readonly Ruling[], request: FastifyRequest): void {
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
