/** The description of one refusal, for a route's `schema.response`. */
export interface QuotaResponse {
  /** What the refusal means. */
  readonly description: string
  /** JSON Schemas of its headers. */
  readonly headers: Readonly<Record<string, object>>
  /**
   * The JSON Schema of its body, by content type. The type lists none of them, so that a type
   * provider does not accept the body of a refusal, or any other value, as the response of a
   * handler.
   */
  readonly content: Readonly<Record<never, Readonly<Record<'schema', object>>>>
}

const text = (description: string) => ({ type: 'string', description })
const integer = (description: string) => ({ type: 'integer', description })
const cacheControl = { ...text('The response must not be cached.'), enum: ['no-store'] }
const retryAfter = {
  ...integer('How long to wait before the next attempt, in seconds.'),
  minimum: 1
}
const rateLimit = {
  'RateLimit-Policy': text(
    "The limits and windows of the request's quotas, if the service sends them."
  ),
  RateLimit: text(
    'What is left of the limits, and the seconds until the windows end, if the service sends them.'
  )
}
// The host can send errors of its own with the same status, which Fastify serializes with this
// schema.
const own = 'of an error of the service itself.'
const membersOfOtherErrors = {
  statusCode: integer(`The status code ${own}`),
  code: text(`The code ${own}`),
  message: text(`The message ${own}`)
}

function response (
  status: number,
  description: string,
  headers: Readonly<Record<string, object>>
): QuotaResponse {
  const properties = {
    error: text('A human-readable message.'),
    status: { ...integer('The status code.'), enum: [status] },
    ...membersOfOtherErrors
  }
  const content = {
    'application/json': { schema: { type: 'object', properties, additionalProperties: true } }
  }
  return { description, headers: { 'Cache-Control': cacheControl, ...headers }, content }
}

/**
 * Descriptions of the refusals by status code, for a route's `schema.response`. They appear in API
 * documentation, such as that of `@fastify/swagger`, and do not change what is sent (docs/rules.md,
 * "Refusal"). With a type provider, the handler's own responses are still checked. To send a 401,
 * 429 or 503 of your own from a handler, or to describe the bodies of `refusalBody`, replace
 * `content`.
 */
export const quotaResponses: Readonly<Record<401 | 429 | 503, QuotaResponse>> = Object.freeze({
  401: response(401, 'The request has no authenticated caller.', {}),
  429: response(429, 'The caller is at its limit.', { 'Retry-After': retryAfter, ...rateLimit }),
  503: response(503, 'The quota is unavailable. The operation did not run.', {
    'Retry-After': retryAfter
  })
})
