import { fileURLToPath } from 'node:url'
import fastifyHelmet from '@fastify/helmet'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'

/** The folder of the page's markup and style. */
export const pageFolder = fileURLToPath(new URL('../../../../examples/service/page/public/', import.meta.url))

const compiledScripts = fileURLToPath(new URL('../page/', import.meta.url))

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
  await app.register(fastifyStatic, { root: [pageFolder, compiledScripts], wildcard: false, cacheControl: false })
}
