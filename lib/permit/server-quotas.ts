import type { QuotaInfo } from './quota.js'

/** The quotas of each scope of a server in which the plugin is registered. */
const byServer = new WeakMap<object, Set<readonly QuotaInfo[]>>()

/** Adds the quotas of a scope of a server, which is `fastify.server`. */
export function addServerQuotas (server: object, quotas: readonly QuotaInfo[]): void {
  const known = byServer.get(server) ?? new Set()
  byServer.set(server, known.add(quotas))
}

/** Returns the quotas of all scopes of a server. */
export function serverQuotas (server: object): QuotaInfo[] {
  return [...(byServer.get(server) ?? [])].flat()
}
