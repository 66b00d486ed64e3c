const noStore = { type: 'string', enum: ['no-store'], description: 'The response must not be cached.' }

// The host can send errors of its own with the same status, which Fastify serializes with this schema.
const hostError = {
  statusCode: { type: 'integer', description: 'The HTTP status code, in an error of the service itself.' },
  code: { type: 'string', description: 'The code of an error of the service itself.' },
  message: { type: 'string', description: 'The message of an error of the service itself.' }
}

function retryAfter (description: string) {
  return { type: 'integer', minimum: 1, description }
}

function response (status: number, description: string, headers: object) {
  return {
    description,
    headers: { 'Cache-Control': noStore, ...headers },
    type: 'object',
    properties: {
      error: { type: 'string', description: 'A human-readable message.' },
      status: { type: 'integer', enum: [status], description: 'The HTTP status code.' },
      ...hostError
    },
    additionalProperties: true
  } as const
}

/**
 * JSON Schemas of the refusals by status code, for a route's `schema.response`. They describe the refusals in API documentation and
 * do not change what is sent (docs/rules.md, "Refusal").
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import { quotaResponses } from 'fastify-llm-quota'
 *
 * const app = Fastify()
 * const answer = { type: 'object', properties: { answer: { type: 'string' } } }
 * app.post('/api/analyze', { schema: { response: { 200: answer, ...quotaResponses } } }, async () => ({ answer: 'from your model' }))
 * ```
 */
export const quotaResponses: Readonly<Record<401 | 429 | 503, object>> = Object.freeze({
  401: response(401, 'The request has no authenticated caller.', {}),
  429: response(429, 'The caller is at its limit in the current window.', { 'Retry-After': retryAfter('The time until the caller\'s window ends, in seconds.') }),
  503: response(503, 'The quota store failed. The operation did not run.', { 'Retry-After': retryAfter('The time to wait before the next attempt, in seconds.') })
})
