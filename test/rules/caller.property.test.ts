// docs/rules.md, "Caller", with arbitrary JSON: which values have a key, and that the key is the digest of exactly that identity.
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { callerKey, localAuthentication, tokenAuthentication } from '../../lib/index.js'
import { assertProperty } from '../support/property.js'

// All kinds of strings, including those that are not valid in an identity: blank ones, lone surrogates, NUL.
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\u00a0', '\u2003', '\ufeff', '\u3000') }),
  fc.string({ unit: fc.constantFrom('a', '\0', '\ud800', '\udc00', '\u{1f98a}', 'e\u0301', '\u00e9') })
)
const part = fc.oneof({ weight: 4, arbitrary: text }, fc.jsonValue())
const claims = fc.oneof({ weight: 4, arbitrary: fc.record({ iss: part, sub: part, preferred_username: part, aud: part }, { requiredKeys: [] }) }, fc.jsonValue())
const isAuthenticated = fc.oneof({ weight: 9, arbitrary: fc.constant(true) }, fc.constant(false))

// Hosts in JavaScript can pass any value.
const localOf = (username: unknown, options = {}) => Reflect.apply(localAuthentication, undefined, [username, options])

// An independent implementation of the rule, with bytes instead of strings.
function expectedKey (authenticated: boolean, category: string, parts: readonly unknown[]): string | null {
  const bytes = []
  for (const part of parts) {
    if (!authenticated || typeof part !== 'string' || /^\s*$/.test(part)) return null
    const encoded = Buffer.from(part, 'utf8')
    if (encoded.includes(0) || encoded.toString('utf8') !== part) return null
    bytes.push(Buffer.from([0]), encoded)
  }
  return createHash('sha256').update(Buffer.concat([Buffer.from(category), ...bytes])).digest('hex')
}

function own (holder: unknown, name: string): unknown {
  return typeof holder === 'object' && holder !== null && Object.hasOwn(holder, name) ? Reflect.get(holder, name) : undefined
}

t.test('the key of an authenticated token is the digest of its own issuer and subject', async () => {
  await assertProperty(fc.asyncProperty(claims, isAuthenticated, fc.boolean(), async (claims, authenticated, isInherited) => {
    const parsed: unknown = JSON.parse(JSON.stringify(claims))
    const given = isInherited ? Object.create(Object(parsed)) : parsed
    return callerKey(tokenAuthentication(given, { authenticated })) === expectedKey(authenticated, 'oidc', [own(given, 'iss'), own(given, 'sub')])
  }), { numRuns: 6_000 })
})

t.test('the key of an authenticated local account is the digest of its user name', async () => {
  await assertProperty(fc.asyncProperty(part, isAuthenticated, async (username, authenticated) =>
    callerKey(localOf(username, { authenticated })) === expectedKey(authenticated, 'local', [username])), { numRuns: 5_000 })
})
