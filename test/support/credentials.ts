import { createHmac } from 'node:crypto'

/** The secret that `hs256` signs with by default. */
export const secret = 'a secret of thirty-two bytes or more'

/** The issuer of the tokens of `hs256` by default. */
const issuer = 'https://identity.example'

/** Signs claims, by default those of mira, with a secret. */
export function hs256 (claims: object = {}, key = secret, header: object = {}): string {
  const all = { iss: issuer, sub: 'mira', exp: Math.floor(Date.now() / 1000) + 3600, ...claims }
  const signed = [{ alg: 'HS256', ...header }, all]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`
}

/** Sends requests one after another, and returns their statuses. */
export async function statuses (
  times: number,
  ask: () => Promise<{ readonly status: number }>
): Promise<number[]> {
  const found = []
  for (let request = 0; request < times; request++) found.push((await ask()).status)
  return found
}
