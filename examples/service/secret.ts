import { hkdfSync, randomBytes, randomUUID } from 'node:crypto'
import { existsSync, linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

// Only the user that runs the service can read the file, and git ignores it.
const file = fileURLToPath(new URL('../../development-secret', import.meta.url))
const leastLength = 32

/** Returns the secret of the service: the one in the environment, else one that is generated at the first start on this machine. */
export function serviceSecret (configured: string): string {
  if (configured !== '') return longEnough(configured)
  if (!existsSync(file)) makeSecret()
  const secret = readFileSync(file, 'utf8').trim()
  if (secret.length < leastLength) throw new Error(`${file} must contain at least ${leastLength} characters; delete it to generate a new secret at the next start`)
  return secret
}

// Linked after it is written, so that a process that starts at the same time never reads a part of the secret.
function makeSecret (): void {
  mkdirSync(dirname(file), { recursive: true })
  const draft = `${file}-${process.pid}-${randomUUID()}`
  writeFileSync(draft, randomBytes(leastLength).toString('base64url'), { mode: 0o600, flag: 'wx' })
  try {
    linkSync(draft, file)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  } finally {
    unlinkSync(draft)
  }
}

/** Derives a key of 32 bytes for one purpose. It reveals neither the secret nor the keys for other purposes. */
export function keyFor (purpose: string, secret: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', purpose, 32))
}

function longEnough (secret: string): string {
  if (secret.length < leastLength) throw new Error(`JWT_SECRET must have at least ${leastLength} characters; it has ${secret.length}`)
  return secret
}
