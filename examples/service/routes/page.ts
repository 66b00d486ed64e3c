import { join } from 'node:path'
import fastifyHelmet from '@fastify/helmet'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'
import { root } from '../root.js'

const none = ["'none'"]

/**
 * Serves the page at `/`, and the library that draws it. The page can load content only from this
 * service.
 */
export default async function page (app: FastifyInstance): Promise<void> {
  await app.register(fastifyHelmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'self'"],
        baseUri: none,
        formAction: none,
        frameAncestors: none,
        requireTrustedTypesFor: ["'script'"]
      }
    }
  })
  await app.register(fastifyStatic, { root: join(root, 'examples/service/page') })
  await app.register(fastifyStatic, {
    root: join(root, 'node_modules/lit-html'),
    prefix: '/lit-html/',
    decorateReply: false
  })
}
