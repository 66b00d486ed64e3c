import type { QuotaDecision } from '../permit/decision.js'
import { secondsUntilEnd, type AnyReply } from './refusal.js'

// The largest integer in a structured field (RFC 9651, section 3.3.1). A limit can be larger.
const largestInteger = 999_999_999_999_999

/**
 * Adds an item for each enforced quota whose store decided
 * (draft-ietf-httpapi-ratelimit-headers-10), also to a hijacked response.
 */
export function setRateLimitHeaders (
  reply: Pick<AnyReply, 'raw'>,
  decisions: readonly QuotaDecision[]
): void {
  const counted = decisions.filter(({ enforced, count }) => enforced && count !== null)
  if (counted.length === 0 || reply.raw.headersSent) return
  reply.raw.setHeader('RateLimit-Policy', counted.map(policyItem).join(', '))
  reply.raw.setHeader('RateLimit', counted.map(limitItem).join(', '))
}

function policyItem ({ quota, limit, window, unit }: QuotaDecision): string {
  const unitParameter =
    unit === 'requests'
      ? ''
      : `;qu="${unit === 'requests-in-flight' ? 'concurrent-requests' : unit}"`
  return `"${quota}";q=${Math.min(limit, largestInteger)}${window === null ? '' : `;w=${window / 1000}`}${unitParameter}`
}

function limitItem ({ quota, limit, count, windowRemaining, outcome }: QuotaDecision): string {
  const remaining = Math.min(Math.max(0, limit - Number(count)), largestInteger)
  const hasEnd = windowRemaining !== null || outcome === 'rejected'
  return `"${quota}";r=${remaining}${hasEnd ? `;t=${secondsUntilEnd(windowRemaining)}` : ''}`
}
