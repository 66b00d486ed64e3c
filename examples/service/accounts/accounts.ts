import { timingSafeEqual } from 'node:crypto'
import { hashPassword, hashLength } from './password.js'

/** A local account. */
export interface Account {
  readonly username: string
  readonly administrator: boolean
}

interface StoredAccount extends Account {
  /** Base64url, 16 bytes. */
  readonly salt: string
  /** Base64url; what `scrypt` makes of the password and the salt. */
  readonly hash: string
}

/** Local accounts by user name, with no password kept. */
export class Accounts {
  readonly #accounts: ReadonlyMap<string, StoredAccount>

  constructor (accounts: readonly StoredAccount[]) {
    this.#accounts = new Map(accounts.map((account) => [account.username, account]))
  }

  find (username: string): Account | undefined {
    return this.#accounts.get(username)
  }

  /** Gives the account that a user name and a password belong to; how long that takes does not tell whether the name is known. */
  async authenticate (username: string, password: string): Promise<Account | null> {
    const account = this.#accounts.get(username)
    const given = await hashPassword(password, account?.salt ?? '')
    const expected = account === undefined ? Buffer.alloc(hashLength) : Buffer.from(account.hash, 'base64url')
    return timingSafeEqual(given, expected) && account !== undefined ? account : null
  }
}
