import fastifySwagger from '@fastify/swagger'
import fastifySwaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import createPlugin from 'fastify-plugin'

/** Serves the OpenAPI 3.1 document at `/documentation/json`, and its page at `/documentation`. */
export const documentation = createPlugin(async function documentation (app: FastifyInstance) {
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Language service', description: 'Reads business texts with a language model, with a quota for each caller.', version: '1.0.0', license: { name: 'MIT', identifier: 'MIT' } },
      components: { securitySchemes: { token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } }
    }
  })
  await app.register(fastifySwaggerUi, {
    routePrefix: '/documentation',
    // Prevents clickjacking: another site must not show the page in a frame.
    uiHooks: { async onRequest (_request, reply) { reply.header('x-frame-options', 'DENY').header('x-content-type-options', 'nosniff').header('referrer-policy', 'no-referrer') } },
    staticCSP: {
      'default-src': "'none'",
      'script-src': "'self'",
      'style-src': ["'self'", "'unsafe-inline'"],
      'img-src': ["'self'", 'data:'],
      'font-src': ["'self'", 'data:'],
      'connect-src': "'self'",
      'form-action': "'self'",
      'base-uri': "'none'",
      'frame-ancestors': "'none'"
    }
  })
}, { name: 'documentation' })
