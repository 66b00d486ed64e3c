import { createRemoteJWKSet, errors, type JWTVerifyGetKey } from 'jose'
import { ServiceError } from './service-error.js'
import { isTrusted } from './trusted-url.js'

/** An issuer whose bearer tokens are accepted. */
export interface TrustedIssuer {
  readonly issuer: string
  readonly audience: string
  /** Empty to use the address in the issuer's discovery document. */
  readonly jwksUrl: string
}

const seconds = 1000
const deadline = 3 * seconds
const rest = 5 * seconds

/**
 * The published keys of an issuer. They are cached for ten minutes. If a token refers to an unknown key, the keys are requested again, but
 * at most every 30 seconds. After a request that failed or timed out, the next one follows after five seconds at the earliest, and the
 * cached keys stay valid. Keys are never requested from an address in a token.
 *
 * @returns A function that rejects with 503 if the keys are not available.
 */
export function publishedKeys ({ issuer, jwksUrl }: TrustedIssuer): JWTVerifyGetKey {
  let keySet: ReturnType<typeof createRemoteJWKSet> | undefined
  let discovery: Promise<URL> | undefined
  let restsUntil = 0

  const find = async (): Promise<NonNullable<typeof keySet>> => {
    discovery ??= (jwksUrl === '' ? discover(issuer) : Promise.resolve(new URL(jwksUrl))).finally(() => { discovery = undefined })
    const url = await discovery
    keySet ??= createRemoteJWKSet(url, { timeoutDuration: deadline, cooldownDuration: 30 * seconds, cacheMaxAge: 600 * seconds })
    return keySet
  }

  return async (header, token) => {
    const isKnown = keySet?.fresh === true && keySet.jwks()?.keys.some(({ kid }) => kid === header.kid) === true
    if (!isKnown && performance.now() < restsUntil) throw unavailable()
    try {
      return await (keySet ?? await find())(header, token)
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys || error instanceof errors.JOSENotSupported) throw error
      restsUntil = performance.now() + rest
      throw unavailable(error)
    }
  }
}

async function discover (issuer: string): Promise<URL> {
  const response = await fetch(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, { signal: AbortSignal.timeout(deadline), redirect: 'error' })
  const document: unknown = await response.json()
  if (typeof document !== 'object' || document === null || !('issuer' in document) || !('jwks_uri' in document)) throw new Error('the discovery document is incomplete')
  if (document.issuer !== issuer) throw new Error('the discovery document belongs to another issuer')
  const url = String(document.jwks_uri)
  if (!isTrusted(url)) throw new Error('the issuer publishes its keys at an untrusted address')
  return new URL(url)
}

function unavailable (cause?: unknown): ServiceError {
  return new ServiceError(503, 'KEYS_UNAVAILABLE', 'The keys of the token\'s issuer are not available. Please try again.', { retryAfter: rest / seconds, cause })
}
