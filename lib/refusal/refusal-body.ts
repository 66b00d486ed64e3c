/** The content type of the quota's own bodies. */
export const jsonContentType = 'application/json; charset=utf-8'

export const unauthenticatedBody = bodyOf(401, 'Authentication is required for this LLM operation.')

export const unavailableBody = bodyOf(503, 'The request quota is unavailable. Please try again.')

// Bounds the cache, because a preference reader can return a different limit for each caller.
const mostKept = 100
const rejectedBodies = new Map<number, string>()

/** Returns the body of a 429. Up to 100 bodies are cached, because most services have only a few limits. */
export function rejectedBody (limit: number): string {
  const kept = rejectedBodies.get(limit)
  if (kept !== undefined) return kept
  if (rejectedBodies.size >= mostKept) rejectedBodies.clear()
  const body = bodyOf(429, `Rate limit exceeded. Maximum ${limit} LLM requests per minute. Please wait.`)
  rejectedBodies.set(limit, body)
  return body
}

function bodyOf (status: number, error: string): string {
  return JSON.stringify({ error, status })
}
