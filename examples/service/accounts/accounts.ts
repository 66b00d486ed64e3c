import { scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { ServiceError } from '../service-error.js'
import { QueueFull, Turns } from '../turns.js'
import { FailedAttempts } from './failed-attempts.js'

/** A local account. */
export interface Account {
  readonly username: string
  readonly administrator: boolean
}

interface StoredAccount extends Account {
  /** Base64url, 16 bytes. */
  readonly salt: string
  /** Base64url; the `scrypt` hash of the password and the salt. */
  readonly hash: string
}

// A hash keeps a core busy for a moment, and a thread of the small pool that is also used to read files.
const hashing = { atOnce: 2, waiting: 100 }
const deadline = 10_000
const hashLength = 32
const derive = promisify<string, Buffer, number, { N: number, r: number, p: number }, Buffer>(scrypt)

/** Two accounts with the public passwords `wonderland` and `looking-glass`, for a service that only this machine can reach. */
export const demonstrationAccounts: readonly StoredAccount[] = [
  { username: 'alice', administrator: false, salt: 'LzJvbIYwur_7vxJApuZzVQ', hash: 't1t5ajcGBj8y9q7L-oJQCs70jeoNj0E7NU1Y1Jyd7f0' },
  { username: 'admin', administrator: true, salt: 'A2t6X4AeyzcomJ3Eem9YRw', hash: 'FSMvs9JSjD0DnCTPf09J7I5TX7Zg0L7Is-E_MiSVyMk' }
]

/** Local accounts by user name. Stores hashes of the passwords only. */
export class Accounts {
  readonly #accounts: ReadonlyMap<string, StoredAccount>
  readonly #turns = new Turns(hashing)
  readonly #failed: FailedAttempts

  /** @param now Returns monotonic milliseconds. */
  constructor (accounts: readonly StoredAccount[], now: () => number = () => performance.now()) {
    this.#accounts = new Map(accounts.map((account) => [account.username, account]))
    this.#failed = new FailedAttempts(now)
  }

  find (username: string): Account | undefined {
    return this.#accounts.get(username)
  }

  /**
   * Returns the account with a user name and a password. The time that this takes does not reveal whether the name exists.
   *
   * @throws ServiceError 429 after too many failed attempts for the name, 503 if too many sign-ins are in progress.
   */
  async authenticate (username: string, password: string): Promise<Account | null> {
    if (this.#accounts.size === 0) return null
    this.#checkFailures(username)
    try {
      return await this.#turns.run(username, AbortSignal.timeout(deadline), async () => await this.#compare(username, password))
    } catch (error) {
      if (error instanceof ServiceError) throw error
      throw new ServiceError(503, 'SIGN_IN_BUSY', 'Too many sign-ins are in progress. Please try again.', { retryAfter: 1, ...(!(error instanceof QueueFull) && { cause: error }) })
    }
  }

  async #compare (username: string, password: string): Promise<Account | null> {
    // Attempts that were ahead in the queue can have failed in the meantime.
    this.#checkFailures(username)
    const account = this.#accounts.get(username)
    const given = await hashPassword(password, account?.salt ?? '')
    const expected = account === undefined ? Buffer.alloc(hashLength) : Buffer.from(account.hash, 'base64url')
    if (timingSafeEqual(given, expected) && account !== undefined) {
      this.#failed.forget(username)
      return account
    }
    this.#failed.add(username)
    return null
  }

  #checkFailures (username: string): void {
    const seconds = Math.ceil(this.#failed.wait(username) / 1000)
    if (seconds > 0) throw new ServiceError(429, 'TOO_MANY_FAILURES', `Too many failed attempts for this user name. Please try again in ${seconds} s.`, { retryAfter: seconds })
  }
}

// The salted hash takes 16 MiB of memory.
async function hashPassword (password: string, salt: string): Promise<Buffer> {
  return await derive(password.normalize('NFKC'), Buffer.from(salt, 'base64url'), hashLength, { N: 2 ** 14, r: 8, p: 1 })
}
