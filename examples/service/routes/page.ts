import fastifyHelmet from '@fastify/helmet'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'
import { pageBuild, pageFolder } from '../page-folder.js'

/** Serves the page at `/`. The page can only load content from this service. */
export async function page (app: FastifyInstance): Promise<void> {
  await app.register(fastifyHelmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'"],
        imgSrc: ["'self'"],
        connectSrc: ["'self'"],
        formAction: ["'self'"],
        baseUri: ["'none'"],
        frameAncestors: ["'none'"],
        requireTrustedTypesFor: ["'script'"]
      }
    },
    referrerPolicy: { policy: 'no-referrer' }
  })
  // Declares a route for each existing file, not a wildcard.
  await app.register(fastifyStatic, { root: [pageFolder, pageBuild], wildcard: false, cacheControl: false })
}
