import type { QuotaDecision } from '../permit/decision.js'
import { secondsOf } from '../permit/decide.js'
import type { Permit } from '../permit/permit.js'

// The largest integer in a structured field (RFC 9651, section 3.3.1). A limit can be larger.
const largestInteger = 999_999_999_999_999

/**
 * Returns the headers with an item for each enforced quota whose store decided
 * (draft-ietf-httpapi-ratelimit-headers-10); none if a quota was unavailable.
 */
export function rateLimitHeaders (permit: Permit): [name: string, value: string][] {
  if (permit.refusal?.outcome === 'unavailable') return []
  const policies: string[] = []
  const limits: string[] = []
  for (const { acquisition, decision } of permit.quotas) {
    if (acquisition === null || decision === null || !decision.enforced) continue
    policies.push(policyItem(decision))
    limits.push(limitItem(decision, acquisition.count))
  }
  if (policies.length === 0) return []
  return [
    ['RateLimit-Policy', policies.join(', ')],
    ['RateLimit', limits.join(', ')]
  ]
}

function policyItem ({ quota, limit, window, unit }: QuotaDecision): string {
  const parameters = [`q=${Math.min(limit, largestInteger)}`]
  if (window !== null) parameters.push(`w=${secondsOf(window)}`)
  if (unit !== 'requests') parameters.push(`qu="${unit}"`)
  return `"${quota}";${parameters.join(';')}`
}

function limitItem (decision: QuotaDecision, count: number): string {
  const { quota, limit, retryAfter, windowRemaining } = decision
  const remaining = Math.min(Math.max(0, limit - count), largestInteger)
  const seconds = retryAfter ?? (windowRemaining === null ? null : secondsOf(windowRemaining))
  return `"${quota}";r=${remaining}${seconds === null ? '' : `;t=${seconds}`}`
}
