import type { FastifyInstance } from 'fastify'
import type { QuotaList } from '../permit/quota-list.js'
import type { PermitServer } from '../permit/requester.js'

/**
 * Refuses the requests that wait for room when the server begins to close, because their
 * connections would keep it open. Settles all permits when it has closed, and before the `onClose`
 * hooks of the host, which close the clients of stores. Fastify has no hook for this. But of the
 * functions for `onClose`, the one that is added last runs first, and all others have been added
 * when the server begins to close. Neither Fastify's types nor its documentation has the method
 * `onClose`.
 */
export function settleBeforeClosing (
  fastify: FastifyInstance,
  { closing, quotaLog }: PermitServer,
  quotas: QuotaList
): void {
  async function settleAll (): Promise<void> {
    if (!await closing.endAll()) quotaLog.closedUnsettled()
  }
  function begin (): void {
    // Fastify 5.0.0 runs a `preClose` hook twice.
    if (closing.hasBegun) return
    closing.begin()
    for (const { lines } of quotas.all) lines?.close()
    Reflect.get(fastify, 'onClose').call(fastify, settleAll)
  }
  fastify.addHook('preClose', async function quotaPreClose () {
    begin()
  })
  // Where a `preClose` hook of the host throws, Fastify runs no later one, and closes the server.
  whenClosed(fastify.server, begin)
}

/** The functions that run when a server has closed, for each scope that the plugin is in. */
const closings = new WeakMap<FastifyInstance['server'], (() => void)[]>()

/** Adds one listener to a server, because Node.js warns of a leak above ten. */
function whenClosed (server: FastifyInstance['server'], run: () => void): void {
  const known = closings.get(server)
  if (known !== undefined) {
    known.push(run)
    return
  }
  const added = [run]
  closings.set(server, added)
  server.once('close', () => {
    for (const each of added) each()
  })
}
