// The layout of fastify-cli's generator, without @fastify/autoload: it registers each file in plugins, then each file in routes with the
// path of its folder as a prefix.
'use strict'

module.exports = async function (fastify) {
  fastify.register(require('./plugins/quota.cjs'))
  fastify.register(require('./routes/api/analyze.cjs'), { prefix: '/api' })
}
