import { scrypt } from 'node:crypto'
import { promisify } from 'node:util'

const derive = promisify<string, Buffer, number, { N: number, r: number, p: number }, Buffer>(scrypt)

/** Bytes. */
export const hashLength = 32

/** Returns the stored form of a password: its salted `scrypt` hash, calculated with 16 MiB of memory. */
export async function hashPassword (password: string, salt: string): Promise<Buffer> {
  return await derive(password.normalize('NFKC'), Buffer.from(salt, 'base64url'), hashLength, { N: 2 ** 14, r: 8, p: 1 })
}
