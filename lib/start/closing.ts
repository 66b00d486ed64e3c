import type { FastifyInstance } from 'fastify'

interface Closing { onClose (run: () => Promise<void>): unknown }

/** Runs a function when the server has closed, before the `onClose` hooks of the host, which close the clients of stores. */
export function whenServerHasClosed (fastify: FastifyInstance, run: () => Promise<void>): void {
  let isAdded = false
  // Of the functions for the end, those that are added last run first. In `preClose`, which Fastify 5.0.0 runs twice, all others have been added.
  fastify.addHook('preClose', async function quotaPreClose () {
    if (!isAdded && isClosing(fastify)) fastify.onClose(run)
    isAdded = true
  })
}

// Fastify's types lack this function.
function isClosing (fastify: object): fastify is Closing {
  return typeof Reflect.get(fastify, 'onClose') === 'function'
}
