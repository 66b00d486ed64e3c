/** An error that is answered with a status, a human-readable message and, if a retry makes sense, the seconds to wait. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError'
  readonly code: string
  readonly statusCode: number
  /** Seconds, for `Retry-After`. */
  readonly retryAfter: number | undefined

  constructor (statusCode: number, code: string, message: string, { retryAfter, cause }: { retryAfter?: number, cause?: unknown } = {}) {
    super(message, { cause })
    this.code = code
    this.statusCode = statusCode
    this.retryAfter = retryAfter
  }
}
