import type { PreferenceReader } from 'fastify-llm-quota'
import { ServiceError } from './service-error.js'

/** The functions of a client that the preferences need. */
export interface Hash {
  hget (key: string, field: string): Promise<unknown>
  hset (key: string, field: string, value: number): Promise<unknown>
  hdel (key: string, field: string): Promise<unknown>
}

const hashKey = 'language-service:preferences'
// Milliseconds.
const deadline = 250
const rest = 1000

/** Preferences on a shared server. While the server does not answer, one read per second waits for it, and all others fail immediately. */
export class SharedPreferences implements PreferenceReader {
  readonly #hash: Hash
  #restsUntil = -Infinity
  #failing = false

  readonly #now: () => number

  /** @param now Returns monotonic milliseconds. */
  constructor (hash: Hash, now: () => number = () => performance.now()) {
    this.#hash = hash
    this.#now = now
  }

  /** @throws ServiceError 503 if the server does not answer. */
  async get (key: string): Promise<unknown> {
    const now = this.#now()
    if (now < this.#restsUntil) throw unavailable()
    // While one read tries the server again, the others fail immediately.
    if (this.#failing) this.#restsUntil = now + rest
    try {
      const value = await inTime(this.#hash.hget(hashKey, key))
      this.#failing = false
      this.#restsUntil = -Infinity
      return value
    } catch (error) {
      this.#failing = true
      this.#restsUntil = this.#now() + rest
      throw unavailable(error)
    }
  }

  /**
   * Changes a preference for all instances; null unsets it.
   *
   * @throws ServiceError 503 if the server does not confirm the change.
   */
  async set (key: string, value: number | null): Promise<void> {
    try {
      await inTime(value === null ? this.#hash.hdel(hashKey, key) : this.#hash.hset(hashKey, key, value))
    } catch (cause) {
      throw new ServiceError(503, 'LIMIT_NOT_CHANGED', 'The shared server did not confirm the new limit. Please try again.', { retryAfter: 1, cause })
    }
  }
}

async function inTime<T> (answer: Promise<T>): Promise<T> {
  const overdue = new AbortController()
  const timer = setTimeout(() => { overdue.abort(new Error('the shared server did not answer in time')) }, deadline)
  try {
    return await Promise.race([answer, new Promise<never>((_resolve, reject) => { overdue.signal.addEventListener('abort', () => { reject(overdue.signal.reason) }) })])
  } finally {
    clearTimeout(timer)
  }
}

function unavailable (cause?: unknown): ServiceError {
  return new ServiceError(503, 'LIMIT_UNAVAILABLE', 'The shared server does not answer, so the limit is not available. Please try again.', { retryAfter: 1, cause })
}
