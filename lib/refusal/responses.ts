const noStore = { type: 'string', enum: ['no-store'], description: 'The answer is not to be kept.' }

// The host may answer with the same status and an error of its own, which Fastify serializes by the schema alone.
const hostError = {
  statusCode: { type: 'integer', description: 'The HTTP status, in an error of the service itself.' },
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
      error: { type: 'string', description: 'A message for people.' },
      status: { type: 'integer', enum: [status], description: 'The HTTP status.' },
      ...hostError
    },
    additionalProperties: true
  } as const
}

/**
 * JSON Schemas of the quota's answers by status code, for a route's `schema.response`: they describe the operation in API
 * documents, and change nothing of what is sent (specification, section 7).
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
  401: response(401, 'Nobody can be named as the caller.', {}),
  429: response(429, 'The caller is at its limit in the current window.', { 'Retry-After': retryAfter('Seconds left in the caller\'s window.') }),
  503: response(503, 'The quota\'s store failed; the operation did not run.', { 'Retry-After': retryAfter('Seconds.') })
})
