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

// Hosts in JavaScript can pass any value.
const localOf = (username: unknown, options = {}) => Reflect.apply(localAuthentication, undefined, [username, options])

// An independent implementation of the rule, with bytes instead of strings.
function expectedKey (category: string, parts: readonly unknown[]): string | null {
  const bytes = []
  for (const part of parts) {
    if (typeof part !== 'string' || /^\s*$/.test(part)) return null
    const encoded = Buffer.from(part, 'utf8')
    if (encoded.includes(0) || encoded.toString('utf8') !== part) return null
    bytes.push(Buffer.from([0]), encoded)
  }
  return createHash('sha256').update(Buffer.concat([Buffer.from(category), ...bytes])).digest('hex')
}

function own (holder: unknown, name: string): unknown {
  return typeof holder === 'object' && holder !== null && Object.hasOwn(holder, name) ? Reflect.get(holder, name) : undefined
}

t.test('a token\'s key is the digest of its issuer and subject', async () => {
  await assertProperty(fc.asyncProperty(claims, async (claims) => {
    const parsed: unknown = JSON.parse(JSON.stringify(claims))
    return callerKey(tokenAuthentication(parsed)) === expectedKey('oidc', [own(parsed, 'iss'), own(parsed, 'sub')])
  }), { numRuns: 5_000 })
})

t.test('a local account\'s key is the digest of its user name', async () => {
  await assertProperty(fc.asyncProperty(part, async (username) => callerKey(localOf(username)) === expectedKey('local', [username])), { numRuns: 5_000 })
})

t.test('no two identities share a key', async () => {
  const identity = fc.oneof(fc.record({ iss: text, sub: text }), fc.record({ username: text }))
  const keyOf = (identity: object) => callerKey('username' in identity ? localOf(identity.username) : tokenAuthentication(identity))
  await assertProperty(fc.asyncProperty(fc.array(identity, { minLength: 2, maxLength: 20 }), async (identities) => {
    const spelled = new Map<string, string>()
    for (const identity of identities) {
      const key = keyOf(identity)
      const spelling = JSON.stringify(identity, Object.keys(identity).sort())
      if (key !== null && (spelled.get(key) ?? spelling) !== spelling) return false
      if (key !== null) spelled.set(key, spelling)
    }
    return true
  }), { numRuns: 500 })
})

t.test('inherited properties are not used as identities', async () => {
  await assertProperty(fc.asyncProperty(text, text, async (iss, sub) => callerKey(tokenAuthentication(Object.create({ iss, sub }))) === null), { numRuns: 200 })
})

t.test('an authentication that is not marked as authenticated has no key', async () => {
  await assertProperty(fc.asyncProperty(claims, part, async (claims, username) =>
    callerKey(tokenAuthentication(claims, { authenticated: false })) === null && callerKey(localOf(username, { authenticated: false })) === null), { numRuns: 500 })
})
