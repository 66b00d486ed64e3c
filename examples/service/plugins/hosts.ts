import { isIP } from 'node:net'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'
import { ServiceError } from '../service-error.js'
import { isLoopback } from '../trusted-url.js'

export interface HostNames {
  /** The accepted host names, in addition to those of this machine. */
  readonly names: readonly string[]
  /** Whether only this machine can reach the service. */
  readonly onLoopback: boolean
}

/**
 * Answers requests with an unknown `Host` with 421. Otherwise a web page could let its own host name resolve to the service's address,
 * and read the answers of the service (DNS rebinding). IP addresses are accepted because they cannot be redirected like this.
 */
export const hosts = createPlugin(async function hosts (app: FastifyInstance, { names, onLoopback }: HostNames) {
  const known = new Set(names.map((name) => name.toLowerCase()))
  // If other machines can reach the service and no names are configured, any name is accepted.
  if (!onLoopback && known.size === 0) return
  app.addHook('onRequest', async ({ headers: { host } }) => {
    // Only HTTP/1.0 allows requests without a Host header, and browsers do not send them.
    if (host === undefined || isOwn(nameIn(host))) return
    throw new ServiceError(421, 'UNKNOWN_HOST', 'This service does not accept this host name. Its operator can add the name to ALLOWED_HOSTS.')
  })

  function isOwn (name: string): boolean {
    return isLoopback(name) || known.has(name) || (!onLoopback && isIP(name.replace(/^\[|\]$/g, '')) !== 0)
  }
}, { name: 'hosts' })

function nameIn (host: string): string {
  return host.replace(/:\d*$/, '').toLowerCase()
}
