'use strict'

const fp = require('fastify-plugin')

// Without fp, the quota would protect only routes that this file declares, and the log would say that it protects nothing.
module.exports = fp(async function (fastify) {
  await fastify.register(require('@fastify/jwt'), { secret: process.env.JWT_SECRET })
  fastify.addHook('onRequest', async (request) => { await request.jwtVerify() })
  await fastify.register(require('fastify-llm-quota'), { perMinute: 3 })
})
