import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Verdict } from '../decision/verdict.js'
import { createUnreportedCharger } from './charges.js'
import { leave, publishPlaces } from './places.js'
import { whenResponseEnds } from './response-end.js'

/**
 * Returns a function that follows an admitted request until its response closes, whatever ends it. Then it gives back the places of the
 * request, and charges its token quotas if its tokens were not reported. The places of a refused request are given back at once.
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
