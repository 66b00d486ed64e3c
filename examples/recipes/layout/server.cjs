// What `fastify start app.js` does.
'use strict'

const fastify = require('fastify')()

fastify.register(require('./app.cjs'))
fastify.listen({ port: Number(process.env.PORT ?? 3000) }).then(console.log)
