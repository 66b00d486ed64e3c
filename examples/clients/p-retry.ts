import pRetry from 'p-retry'

/** The error for a 429, with the time to wait. */
class RejectedError extends Error {
  readonly seconds: number

  constructor (seconds: number) {
    super(`rejected for ${seconds} s`)
    this.seconds = seconds
  }
}

export async function ask (address: string, token: string): Promise<string> {
  return await pRetry(async () => {
    const response = await fetch(`${address}/api/analyze`, { method: 'POST', headers: { authorization: `Bearer ${token}` } })
    const text = await response.text()
    if (response.status === 429) throw new RejectedError(Number(response.headers.get('retry-after')))
    return text
  }, {
    retries: 2,
    minTimeout: 0,
    shouldRetry: ({ error }) => error instanceof RejectedError,
    onFailedAttempt: async ({ error, retriesLeft }) => {
      if (error instanceof RejectedError && retriesLeft > 0) await new Promise((resolve) => { setTimeout(resolve, error.seconds * 1000) })
    }
  })
}
