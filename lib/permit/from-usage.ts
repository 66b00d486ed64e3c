import type { FastifyRequest } from 'fastify'
import type { ModelUsage } from '../model/usage.js'

/**
 * The function `fromUsage` of a quota: returns what a model's usage is in the unit of the quota, a
 * safe integer of at least 0, for example its price. Its `request` is null for a permit without
 * one. As in `OfRequest`, it can be annotated with any type.
 */
export interface FromUsage {
  /** Receives the usage and the request. */
  <Request extends FastifyRequest>(usage: ModelUsage, request: Request | null): number
  /** Receives the usage and the request. */
  <Request extends FastifyRequest>(usage: ModelUsage, request: Request | null): number
}
