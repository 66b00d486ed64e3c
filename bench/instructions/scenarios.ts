import type { Situation } from '../http/measure.js'
import type { CountedServer } from './counted-server.js'

/** A group of servers that are compared with a base. */
export interface Scenario {
  readonly title: string
  /** The server without a quota, which is the base of the comparison. */
  readonly base: string
  readonly servers: readonly string[]
}

const operation = '/api/analyze-node'
const other = '/api/other'
const own = 'fastify-llm-quota'
const peers = ['@fastify/rate-limit', 'rate-limiter-flexible']

/** More callers than the memory store has slots for counters that were found last, so most of them share a slot. */
export const many = 5000

const admitted: Situation = { limit: 1_000_000_000 }
const rejected: Situation = { limit: 1 }

/** All servers that are measured, by name. */
export const servers: Readonly<Record<string, CountedServer>> = {
  bare: server('bare', admitted),
  'bare again': server('bare', admitted),
  'bare, no plugins': server('bare', { ...admitted, plugins: 0 }),
  floor: server('floor', admitted),
  'least refusal': server('least refusal', rejected, operation, 429),
  ...Object.fromEntries([own, ...peers].flatMap((name) => [
    [`${name}, admitted`, server(name, admitted)],
    [`${name}, rejected`, server(name, rejected, operation, 429)],
    [`${name}, unprotected`, server(name, admitted, other)]
  ])),
  [`${own}, three quotas`]: server(`${own} with three quotas`, { limit: 1_000_000_000 }),
  'bare, unprotected': server('bare', admitted, other),
  'idle hook, unprotected': server('idle hook', admitted, other),
  'reading hook, unprotected': server('reading hook', admitted, other),
  [`bare, ${many} callers`]: { ...server('bare', admitted), callers: many },
  [`floor, ${many} callers`]: { ...server('floor', admitted), callers: many },
  [`${own}, ${many} callers`]: { ...server(own, admitted), callers: many },
  'bare, HS256': server('bare', { ...admitted, tokens: true }),
  'floor, HS256': server('floor', { ...admitted, tokens: true }),
  [`${own}, HS256`]: server(own, { ...admitted, tokens: true }),
  [`${own}, asynchronous store`]: server(own, { ...admitted, asynchronousStore: true }),
  [`${own}, asynchronous reader`]: server(own, { ...admitted, asynchronousPreference: true }),
  [`${own}, asynchronous authentication`]: server(own, { ...admitted, asynchronousAuthentication: true })
}

export const scenarios: readonly Scenario[] = [
  { title: 'Admitted', base: 'bare', servers: ['bare again', 'floor', ...each('admitted')] },
  { title: `Admitted, ${many} callers`, base: `bare, ${many} callers`, servers: [`floor, ${many} callers`, `${own}, ${many} callers`] },
  { title: 'Requests, model tokens and requests in flight', base: 'bare', servers: [`${own}, admitted`, `${own}, three quotas`] },
  { title: 'Rejected', base: 'bare', servers: ['least refusal', ...each('rejected')] },
  { title: 'Unprotected route', base: 'bare, unprotected', servers: ['idle hook, unprotected', 'reading hook, unprotected', ...each('unprotected')] },
  { title: 'Empty plugins', base: 'bare, no plugins', servers: ['bare'] },
  { title: 'HS256 token verified', base: 'bare, HS256', servers: ['floor, HS256', `${own}, HS256`] },
  { title: 'Asynchronous', base: 'bare', servers: [`${own}, admitted`, `${own}, asynchronous store`, `${own}, asynchronous reader`, `${own}, asynchronous authentication`] }
]

function server (name: string, situation: Situation, path = operation, status = 200): CountedServer {
  return { name, situation, path, status, callers: 1 }
}

function each (situation: string): string[] {
  return [own, ...peers].map((name) => `${name}, ${situation}`)
}
