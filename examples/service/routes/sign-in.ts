import { scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox'
import { WrongCredentials } from '../plugins/errors.js'

const derive = promisify<string, Buffer, number, Buffer>(scrypt)

// Two accounts with the public passwords `wonderland` and `looking-glass`. A hash is `scrypt` of
// the password and the salt.
const demonstrationAccounts = {
  alice: {
    isAdministrator: false,
    salt: 'LzJvbIYwur_7vxJApuZzVQ',
    hash: 't1t5ajcGBj8y9q7L-oJQCs70jeoNj0E7NU1Y1Jyd7f0'
  },
  admin: {
    isAdministrator: true,
    salt: 'A2t6X4AeyzcomJ3Eem9YRw',
    hash: 'FSMvs9JSjD0DnCTPf09J7I5TX7Zg0L7Is-E_MiSVyMk'
  }
}
const unknown = { isAdministrator: false, salt: '', hash: '' }
const text = Type.String({ minLength: 1, maxLength: 200 })

/** A route that returns a token for the user name and the password of a local account. */
const signIn: FastifyPluginAsyncTypebox = async function signIn (app) {
  // Their passwords are public, so there are none if other machines can reach the service.
  const isLocal = ['127.0.0.1', '::1', 'localhost'].includes(app.config.HOST)
  const accounts = new Map(isLocal ? Object.entries(demonstrationAccounts) : [])
  const schema = {
    summary: 'Sign in with a local account',
    tags: ['Service'],
    body: Type.Object({ username: text, password: text })
  }

  app.post('/api/sign-in', { schema }, async ({ body: { username, password } }, reply) => {
    // The time does not reveal which names exist.
    const { isAdministrator, salt, hash } = accounts.get(username) ?? unknown
    const given = await derive(password.normalize('NFKC'), Buffer.from(salt, 'base64url'), 32)
    const isRight = timingSafeEqual(given, Buffer.concat([Buffer.from(hash, 'base64url')], 32))
    if (!isRight || hash === '') throw new WrongCredentials()
    const token = app.jwt.sign({
      sub: username,
      local: true,
      ...(isAdministrator && { role: 'admin' })
    })
    return reply.header('cache-control', 'no-store').send({ token })
  })
}

export default signIn
