import fastifyHelmet from '@fastify/helmet'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'
import { pageBuild, pageFolder } from '../page-folder.js'

/** Serves the page at `/`, and lets it load nothing that is not this service's own. */
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
  // Only the files that are there get a route.
  await app.register(fastifyStatic, { root: [pageFolder, pageBuild], wildcard: false, cacheControl: false })
}
