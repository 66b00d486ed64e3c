import { validateHeaderValue } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { QuotaDecision } from '../permit/decision.js'
import { logFailure } from '../log.js'
import { ignoreRejection } from '../promises.js'

/** The body of a refusal, as returned by the host's function `refusalBody`. */
export interface RefusalBody {
  /** The value of the `Content-Type` header. */
  readonly contentType: string
  /** The text of the body. */
  readonly body: string
}

/** The option `refusalBody`: writes the body of a refusal and its content type. The status and the other headers do not change. */
export type RefusalBodyWriter = {
  /** Writes the body. */
  method (decision: QuotaDecision, request: FastifyRequest): RefusalBody
}['method']

const mediaType = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/

/** Returns the body from the host's function. If the function fails or returns an invalid body, logs an error and returns null. */
export function hostBody (write: RefusalBodyWriter, decision: QuotaDecision, request: FastifyRequest): RefusalBody | null {
  try {
    const written = write(decision, request)
    ignoreRejection(written)
    const { contentType, body } = written
    if (typeof contentType !== 'string' || !mediaType.test(contentType)) throw new TypeError('its contentType is not a media type')
    if (typeof body !== 'string') throw new TypeError('its body is not a string')
    validateHeaderValue('content-type', contentType)
    return { contentType, body }
  } catch (error) {
    logFailure(request.log, error, 'refusalBody failed; the refusal has the quota\'s own body')
    return null
  }
}
