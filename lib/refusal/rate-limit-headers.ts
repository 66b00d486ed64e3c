import type { QuotaDecision } from '../permit/decision.js'
import { waitAfter } from '../permit/decide.js'
import type { Permit } from '../permit/permit.js'
import { secondsOf } from './refusal.js'

// The largest integer in a structured field (RFC 9651, section 3.3.1). A limit can be larger.
const largestInteger = 999_999_999_999_999

/**
 * Returns the headers with an item for each enforced quota whose store decided
 * (draft-ietf-httpapi-ratelimit-headers-10); none if a quota was unavailable.
 */
export function rateLimitHeaders (permit: Permit): [name: string, value: string][] {
  if (permit.refusal?.decision.outcome === 'unavailable') return []
  const policies: string[] = []
  const limits: string[] = []
  for (const evaluation of permit.evaluations) {
    const { acquisition, decision } = evaluation
    if (acquisition === null || decision === null || !decision.enforced) continue
    policies.push(policyItem(decision))
    limits.push(limitItem(decision, acquisition.count, waitAfter(evaluation, decision)))
  }
  if (policies.length === 0) return []
  return [
    ['RateLimit-Policy', policies.join(', ')],
    ['RateLimit', limits.join(', ')]
  ]
}

function policyItem ({ quota, limit, window, unit }: QuotaDecision): string {
  const parameters = [`q=${Math.min(limit, largestInteger)}`]
  if (window !== null) parameters.push(`w=${window / 1000}`)
  if (unit === 'concurrent-requests') parameters.push('qu="concurrent-requests"')
  else if (unit !== 'requests') parameters.push(`qu="${unit}"`)
  return `"${quota}";${parameters.join(';')}`
}

function limitItem (
  { quota, limit, outcome }: QuotaDecision,
  count: number,
  wait: number | null
): string {
  const remaining = Math.min(Math.max(0, limit - count), largestInteger)
  const hasEnd = wait !== null || outcome === 'rejected'
  return `"${quota}";r=${remaining}${hasEnd ? `;t=${secondsOf(wait)}` : ''}`
}
