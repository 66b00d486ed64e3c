import type { QuotaDecision } from '../permit/decision.js'
import { secondsOf } from '../permit/decide.js'
import type { Permit } from '../permit/permit.js'

// The largest integer in a structured field (RFC 9651, section 3.3.1). A limit can be larger.
const largestInteger = 999_999_999_999_999

const policyName = 'RateLimit-Policy'
const limitName = 'RateLimit'

/** The names of the headers. */
export const headerNames: readonly string[] = [policyName, limitName]

/**
 * Returns the headers with an item for each enforced quota with a finite limit whose store decided
 * (draft-ietf-httpapi-ratelimit-headers-10), except for those that the host leaves out; none if a
 * quota was unavailable.
 */
export function rateLimitHeaders (permit: Permit): [name: string, value: string][] {
  if (permit.refusal?.outcome === 'unavailable') return []
  const policies: string[] = []
  const limits: string[] = []
  for (const { quota, acquisition, decision, limit } of permit.quotas) {
    if (acquisition === null || decision === null) continue
    if (!quota.hasRateLimitHeaders || limit === Infinity) continue
    policies.push(policyItem(decision))
    limits.push(limitItem(decision, acquisition.count))
  }
  if (policies.length === 0) return []
  return [
    [policyName, policies.join(', ')],
    [limitName, limits.join(', ')]
  ]
}

function policyItem ({ quota, limit, window, unit }: QuotaDecision): string {
  const parameters = [`q=${Math.min(limit, largestInteger)}`]
  if (window !== null) parameters.push(`w=${secondsOf(window)}`)
  if (unit !== 'requests') parameters.push(`qu="${unit}"`)
  return `"${quota}";${parameters.join(';')}`
}

function limitItem (decision: QuotaDecision, count: number): string {
  const { quota, limit } = decision
  const remaining = Math.min(Math.max(0, limit - count), largestInteger)
  const seconds = secondsLeft(decision)
  return `"${quota}";r=${remaining}${seconds === null ? '' : `;t=${seconds}`}`
}

/** What a rejection says is what `Retry-After` says. */
function secondsLeft ({ outcome, retryAfter, windowRemaining }: QuotaDecision): number | null {
  if (outcome === 'rejected') return retryAfter
  return windowRemaining === null ? null : secondsOf(windowRemaining)
}
