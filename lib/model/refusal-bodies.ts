/** The status of a refusal: not authenticated, over the limit, or not available. */
export type RefusalStatus = 401 | 429 | 503

/** What a limit counts, as OpenAI's API distinguishes it. */
export type LimitedUnit = 'requests' | 'tokens'

const openaiErrors = {
  401: { type: 'invalid_request_error', code: 'invalid_api_key' },
  // The type says which limit it is.
  429: { type: null, code: 'rate_limit_exceeded' },
  503: { type: 'server_error', code: null }
} as const

/** Returns the body of an error in the form of OpenAI's API. */
export function openaiError (status: RefusalStatus, message: string, unit: LimitedUnit): string {
  const { type, code } = openaiErrors[status]
  return JSON.stringify({ error: { message, type: type ?? unit, param: null, code } })
}

const anthropicTypes = {
  401: 'authentication_error',
  429: 'rate_limit_error',
  503: 'api_error'
} as const

/**
 * Returns the body of an error in the form of Anthropic's API.
 *
 * @param requestId The id of the request; null if it has none.
 */
export function anthropicError (
  status: RefusalStatus,
  message: string,
  requestId: string | null
): string {
  const error = { type: anthropicTypes[status], message }
  return JSON.stringify({ type: 'error', error, request_id: requestId })
}
