import type { QuotaInfo } from './quota.js'

/** What a scope of a server in which the plugin is registered has. */
interface ScopeQuotas {
  readonly quotas: readonly QuotaInfo[]
  /** Returns the names of the preferences that its reader is asked for; none without a reader. */
  readonly preferences: () => readonly string[]
}

const byServer = new WeakMap<object, Set<ScopeQuotas>>()

/** Adds the quotas of a scope of a server, which is `fastify.server`. */
export function addServerQuotas (server: object, scope: ScopeQuotas): void {
  const known = byServer.get(server) ?? new Set()
  byServer.set(server, known.add(scope))
}

/** Returns the quotas of all scopes of a server. */
export function serverQuotas (server: object): QuotaInfo[] {
  return scopesOf(server).flatMap(({ quotas }) => quotas)
}

/** Returns the names of the preferences of all scopes of a server. */
export function serverPreferences (server: object): string[] {
  return scopesOf(server).flatMap(({ preferences }) => preferences())
}

function scopesOf (server: object): ScopeQuotas[] {
  return [...(byServer.get(server) ?? [])]
}
