import fastifySwagger from '@fastify/swagger'
import fastifySwaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'

/** The API's document, OpenAPI 3.1, at `/documentation/json`, and a page of it at `/documentation`. */
export const documentation = createPlugin(async function documentation (app: FastifyInstance) {
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Language service', description: 'Business texts, read by a language model, behind a quota for each caller.', version: '1.0.0', license: { name: 'MIT', identifier: 'MIT' } },
      components: { securitySchemes: { token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } }
    }
  })
  await app.register(fastifySwaggerUi, { routePrefix: '/documentation' })
}, { name: 'documentation' })
