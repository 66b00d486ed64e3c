import fastifyCsrfProtection from '@fastify/csrf-protection'
import fastifySecureSession from '@fastify/secure-session'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { keyFor, serviceSecret } from '../secret.js'

/** The user of a session. */
export type SessionUser = Identity & {
  /** When the session ends, regardless of its use, in milliseconds since 1970. */
  readonly endsAt: number
}

export type Identity =
  | { readonly kind: 'openid', readonly iss: string, readonly sub: string, readonly name: string }
  | { readonly kind: 'local', readonly username: string }

/** The values that the OpenID provider must return, and the proof that this browser started the sign-in. */
export interface PendingSignIn {
  readonly state: string
  readonly nonce: string
  readonly codeVerifier: string
}

declare module '@fastify/secure-session' {
  interface SessionData {
    user: SessionUser
    pendingSignIn: PendingSignIn
  }
}

/** Seconds. */
export const sessionLength = 8 * 60 * 60

/** Stores sessions in a cookie that only this service can read, and creates the tokens that protect sessions against forged requests. */
export const sessions = createPlugin(async function sessions (app: FastifyInstance) {
  await app.register(fastifySecureSession, {
    key: keyFor('session cookies', serviceSecret(app.config.JWT_SECRET)),
    cookieName: 'language-service-session',
    expiry: sessionLength,
    cookie: { path: '/', httpOnly: true, sameSite: 'lax', secure: app.config.PUBLIC_URL.startsWith('https:'), maxAge: sessionLength }
  })
  await app.register(fastifyCsrfProtection, { sessionPlugin: '@fastify/secure-session', logLevel: 'info' })
}, { name: 'sessions', dependencies: ['configuration'] })
