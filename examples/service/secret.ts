import { hkdfSync, randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

// Only whoever runs the service can read the file, and git ignores it.
const file = fileURLToPath(new URL('../../development-secret', import.meta.url))
const leastLength = 32

/** The secret of the running service: the environment's, else one that the first start on this machine makes. */
export function serviceSecret (configured: string): string {
  if (configured !== '') return longEnough(configured)
  try {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, randomBytes(leastLength).toString('base64url'), { mode: 0o600, flag: 'wx' })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
  return readFileSync(file, 'utf8')
}

/** A key of 32 bytes for one purpose, from which neither the secret nor another purpose's key can be told. */
export function keyFor (purpose: string, secret: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', purpose, 32))
}

function longEnough (secret: string): string {
  if (secret.length < leastLength) throw new Error(`JWT_SECRET must have at least ${leastLength} characters; it has ${secret.length}`)
  return secret
}
