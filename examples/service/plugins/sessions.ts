import fastifyCsrfProtection from '@fastify/csrf-protection'
import fastifySecureSession from '@fastify/secure-session'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { keyFor, serviceSecret } from '../secret.js'

/** Who a session belongs to. */
export type SessionUser =
  | { readonly kind: 'openid', readonly iss: string, readonly sub: string, readonly name: string }
  | { readonly kind: 'local', readonly username: string }

/** What must come back from the OpenID provider, and what proves that it is this browser that asked. */
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

const eightHours = 8 * 60 * 60

/** Keeps who has signed in in a cookie that only this service can read, and makes the tokens that guard such sessions against forged requests. */
export const sessions = createPlugin(async function sessions (app: FastifyInstance) {
  await app.register(fastifySecureSession, {
    key: keyFor('session cookies', serviceSecret(app.config.JWT_SECRET)),
    cookieName: 'language-service-session',
    expiry: eightHours,
    cookie: { path: '/', httpOnly: true, sameSite: 'lax', secure: app.config.PUBLIC_URL.startsWith('https:'), maxAge: eightHours }
  })
  await app.register(fastifyCsrfProtection, { sessionPlugin: '@fastify/secure-session', logLevel: 'info' })
}, { name: 'sessions', dependencies: ['configuration'] })
