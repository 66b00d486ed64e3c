// npm run fuzz [-- SECONDS]: a coverage-guided search for requests, identities or preferences that the quota does not treat according to
// the rules. The first byte selects one of the three.
import { createHash } from 'node:crypto'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import Fastify = require('fastify')
import quota = require('fastify-llm-quota')
import spellings = require('../test/support/spelling-rule.js')

const { callerKey, localAuthentication, protectedOperations, quotaPlugin, tokenAuthentication } = quota

type Check = (data: Buffer) => void | Promise<void>
type App = ReturnType<typeof Fastify>

const routerOptions = Array.from({ length: 16 }, (_, bits) => ({
  ignoreTrailingSlash: (bits & 1) > 0, ignoreDuplicateSlashes: (bits & 2) > 0, caseSensitive: (bits & 4) === 0, useSemicolonDelimiter: (bits & 8) > 0
}))

const host = 'h'
const prefix = '/context'

async function service (options: object, guarded: boolean): Promise<App> {
  const app = Fastify({ routerOptions: options })
  if (guarded) await app.register(quotaPlugin, { prefix })
  for (const { method, path } of protectedOperations) app.route({ method, url: `${prefix}${path}`, exposeHeadRoute: false, handler: async () => 'reached' })
  app.all(`${prefix}/api/:name`, async () => 'elsewhere')
  await app.ready()
  return app
}

const services = routerOptions.map((options) => Promise.all([service(options, true), service(options, false)]))

// Sends the target unchanged, because HTTP clients would normalize it.
async function answer (app: App, method: string, target: string): Promise<{ status: number, body: string }> {
  const request = new IncomingMessage(new Socket())
  Object.assign(request, { method, url: target, headers: { host }, httpVersion: '1.1' })
  request.push(null)
  const response = new ServerResponse(request)
  return await new Promise((resolve) => {
    response.end = ((body: unknown) => {
      resolve({ status: response.statusCode, body: String(body) })
      return response
    }) as typeof response.end
    app.server.emit('request', request, response)
  })
}

const matching: Check = async (data) => {
  const [bits = 0] = data
  const options = routerOptions[bits % 16]
  const pair = services[bits % 16]
  if (options === undefined || pair === undefined) throw new Error('no such options')
  const [guarded, open] = await pair
  const method = bits & 16 ? 'POST' : 'GET'
  const target = data.subarray(1).toString('latin1')
  // The request targets that Node's parser accepts.
  if (!/^[\x21-\x7e\x80-\xff]+$/.test(target)) return
  const { status, body } = await answer(open, method, target)
  const isSubject = body === 'reached' || protectedOperations.some((operation) => operation.method === method && spellings.isSpelledAs({ path: operation.path, prefix, options }, target, host))
  // Fastify answers a target that it cannot decode with 400, and runs no hook and no handler.
  const expected = isSubject && status !== 400 ? 401 : status
  const guardedAnswer = await answer(guarded, method, target)
  if (guardedAnswer.status !== expected) throw new Error(`${method} ${JSON.stringify(target)} ${JSON.stringify(options)}: ${guardedAnswer.status} in place of ${expected}`)
}

function expectedKey (category: string, parts: readonly unknown[]): string | null {
  const identity = [Buffer.from(category)]
  for (const part of parts) {
    if (typeof part !== 'string' || /^\s*$/.test(part) || part.includes('\0') || Buffer.from(part).toString() !== part) return null
    identity.push(Buffer.from([0]), Buffer.from(part))
  }
  return createHash('sha256').update(Buffer.concat(identity)).digest('hex')
}

const identities: Check = (data) => {
  const text = data.toString('utf16le')
  const [iss = '', sub] = text.split('|')
  const claims: unknown = JSON.parse(JSON.stringify({ iss, ...(sub !== undefined && { sub }) }))
  if (callerKey(tokenAuthentication(claims)) !== expectedKey('oidc', [iss, sub])) throw new Error(`claims ${JSON.stringify(claims)}`)
  if (callerKey(localAuthentication(text)) !== expectedKey('local', [text])) throw new Error(`user name ${JSON.stringify(text)}`)
}

let preference: unknown
const limited = (async () => {
  const app = Fastify()
  await app.register(quotaPlugin, { perMinute: 7, preferences: { get: () => preference }, authentication: () => localAuthentication('alice') })
  app.post('/api/analyze', async (request) => String(request.quota?.limit))
  await app.ready()
  return app
})()

const limits: Check = async (data) => {
  preference = data.toString()
  const app = await limited
  await app.quotaStore.clearCounters?.()
  const spelled = /^-?[0-9]+$/.test(String(preference)) ? BigInt(String(preference)) : undefined
  const safe = spelled !== undefined && spelled <= BigInt(Number.MAX_SAFE_INTEGER) && spelled >= BigInt(Number.MIN_SAFE_INTEGER)
  const expected = !safe ? 7n : spelled < 0n ? 1n : spelled
  const { body } = await answer(app, 'POST', '/api/analyze')
  if (body !== String(expected)) throw new Error(`preference ${JSON.stringify(preference)}: limit ${body} in place of ${expected}`)
}

const checks = [matching, matching, identities, limits]

export async function fuzz (data: Buffer): Promise<void> {
  const [choice = 0] = data
  await checks[choice % checks.length]?.(data.subarray(1))
}
