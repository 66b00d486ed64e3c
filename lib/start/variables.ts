import type { FastifyInstance } from 'fastify'
import { logLine } from '../log.js'

/** The environment variables of limits, as far as the quotas of a server concern them. */
interface ServerVariables {
  /** Those that are set. */
  readonly set: Set<string>
  /** Those that a quota reads, in whichever scope. */
  readonly read: Set<string>
}

const byServer = new WeakMap<FastifyInstance['server'], ServerVariables>()

/** Remembers which variables are set, and which ones the quotas of a scope read. */
export function noteVariables (
  { server }: FastifyInstance,
  set: Iterable<string>,
  read: Iterable<string>
): void {
  const noted = byServer.get(server) ?? { set: new Set(), read: new Set() }
  byServer.set(server, noted)
  for (const name of set) noted.set.add(name)
  for (const name of read) noted.read.add(name)
}

/**
 * Warns of the variables of limits that are set and that no quota of the server reads: their names
 * are probably misspelt. Called when all plugins have been registered.
 */
export function warnOfUnreadVariables ({ server, log }: FastifyInstance): void {
  const noted = byServer.get(server)
  if (noted === undefined) return
  // Only the first of several scopes warns.
  byServer.delete(server)
  const unread = [...noted.set].filter((name) => !noted.read.has(name))
  if (unread.length === 0) return
  const message =
    `no quota reads the environment variable ${unread.join(', ')}; ` +
    `the variables of the quotas are ${[...noted.read].join(', ')}`
  logLine(log, 'warn', { variables: unread }, message)
}
