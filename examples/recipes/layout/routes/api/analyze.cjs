'use strict'

module.exports = async function (fastify) {
  fastify.post('/analyze', async () => ({ answer: 'from your model' }))
}
