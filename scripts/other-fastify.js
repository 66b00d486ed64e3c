// Loaded before the tests by scripts/nodes.sh: what is imported as `fastify` outside of
// node_modules is the package in FASTIFY, such as `fastify-6`.
import { registerHooks } from 'node:module'

const { FASTIFY = 'fastify' } = process.env

registerHooks({
  resolve: (specifier, context, next) =>
    next(
      specifier === 'fastify' && context.parentURL?.includes('/node_modules/') === false
        ? FASTIFY
        : specifier,
      context
    )
})
