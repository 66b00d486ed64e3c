import fastifySwagger from '@fastify/swagger'
import fastifySwaggerUi from '@fastify/swagger-ui'
import createPlugin from 'fastify-plugin'

/**
 * Serves the OpenAPI document at `/documentation/json`, its page at `/documentation`, and the
 * health of the service.
 */
export default createPlugin(
  async function documentation (app) {
    await app.register(fastifySwagger, {
      openapi: {
        openapi: '3.1.0',
        info: {
          title: 'Language service',
          description: 'Reads texts with a language model.',
          version: '1.0.0'
        },
        components: {
          securitySchemes: { token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } }
        }
      }
    })
    await app.register(fastifySwaggerUi, { routePrefix: '/documentation', staticCSP: true })
    app.get(
      '/health',
      { schema: { summary: 'Check the health of the service', tags: ['Service'] } },
      async () => ({ status: 'ok' })
    )
  },
  { name: 'documentation' }
)
