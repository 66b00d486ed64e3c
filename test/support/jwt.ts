import { createHmac } from 'node:crypto'

/** The secret that `hs256` signs with by default. */
export const secret = 'a secret of thirty-two bytes or more'

/** Signs claims with a secret, by hand. */
export function hs256 (claims: object, key = secret): string {
  const signed = [{ alg: 'HS256', typ: 'JWT' }, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`
}
