import type { FastifyInstance } from 'fastify'

/** Runs a function when the server has closed, before the `onClose` hooks of the host, which close the clients of stores. */
export function whenServerHasClosed (fastify: FastifyInstance, run: () => Promise<void>): void {
  let isAdded = false
  // Of these functions, those that are added last run first. In `preClose`, which Fastify 5.0.0 runs twice, the others have been added.
  fastify.addHook('preClose', async function quotaPreClose () {
    // Fastify's types lack this function.
    if (!isAdded) Reflect.get(fastify, 'onClose').call(fastify, run)
    isAdded = true
  })
}
