// The program of docs/identities.md that needs an issuer, run unchanged and tested over HTTP.
import { randomUUID } from 'node:crypto'
import Fastify from 'fastify'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { hs256 } from '../support/credentials.js'
import { Programs } from '../support/programs.js'

const programs = Programs.start(t)
const three = { SERVICE_RATE_LIMIT_PER_MINUTE: '3' }
const threeThenRejected = [200, 200, 200, 429]

/**
 * Starts an issuer over real HTTP, which signs anything for a test; `forged` with a key that is not
 * published.
 */
async function startIssuer (t: Test) {
  const app = Fastify({ forceCloseConnections: true })
  const [{ privateKey, publicKey }, other] = [
    await generateKeyPair('EdDSA', { extractable: true }),
    await generateKeyPair('EdDSA')
  ]
  const key = {
    ...(await exportJWK(publicKey)),
    kid: String(randomUUID()),
    alg: 'EdDSA',
    use: 'sig'
  }
  app.get('/.well-known/openid-configuration', async () => ({
    issuer: url,
    jwks_uri: `${url}/keys`
  }))
  app.get('/keys', async () => ({ keys: [key] }))
  t.teardown(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const stop = async () => {
    await app.close()
  }
  const sign = async (claims: JWTPayload, { forged = false, kid = key.kid, lasts = 3600 } = {}) =>
    new SignJWT(claims)
      .setIssuedAt()
      .setExpirationTime(Math.floor(Date.now() / 1000) + lasts)
      .setProtectedHeader({ alg: 'EdDSA', kid })
      .sign(forged ? other.privateKey : privateKey)
  return { url, sign, stop }
}

t.test(
  'a service that verifies tokens with the published keys of an issuer limits each caller',
  async (t) => {
    const issuer = await startIssuer(t)
    const address = await programs.run('identities/jwks.ts', {
      ...three,
      JWT_ISSUER: issuer.url,
      JWT_AUDIENCE: 'service'
    })
    const claims = { iss: issuer.url, aud: 'service', sub: 'mira' }
    const ask = async (token: string) =>
      (
        await fetch(`${address}/api/analyze`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}` }
        })
      ).status
    const signed = async (...token: Parameters<typeof issuer.sign>) =>
      await ask(await issuer.sign(...token))
    for (const how of [{ forged: true }, { lasts: -60 }, { kid: 'another' }]) {
      t.equal(await signed(claims, how), 401)
    }
    t.same([await signed({ ...claims, aud: 'another' }), await ask(hs256())], [401, 401])
    t.same(
      [await signed(claims), await signed(claims), await signed(claims), await signed(claims)],
      threeThenRejected
    )
    await t.rejects(programs.run('identities/jwks.ts'), /JWT_ISSUER and JWT_AUDIENCE must be set/)
  }
)

t.test('a service that cannot read the keys of its issuer refuses no token', async (t) => {
  const issuer = await startIssuer(t)
  const address = await programs.run('identities/jwks.ts', {
    ...three,
    JWT_ISSUER: issuer.url,
    JWT_AUDIENCE: 'service'
  })
  const token = await issuer.sign({ iss: issuer.url, aud: 'service', sub: 'mira' })
  await issuer.stop()
  const headers = { authorization: `Bearer ${token}` }
  const response = await fetch(`${address}/api/analyze`, { method: 'POST', headers })
  t.equal(response.status, 503)
})
