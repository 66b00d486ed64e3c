// For mutation tests and tests with another version of Fastify: runs TypeScript with the types stripped by Node (22.18 or later), and
// resolves imports of built files to their sources. FASTIFY is the package to import as `fastify`, such as `fastify-6`.
import { existsSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'

const fastify = process.env.FASTIFY ?? 'fastify'

registerHooks({
  resolve (specifier, context, next) {
    if (specifier === 'fastify' && context.parentURL?.includes('/node_modules/') === false) return next(fastify, context)
    if (context.parentURL?.endsWith('.ts') === true && specifier.startsWith('.') && specifier.endsWith('.js')) {
      const source = new URL(specifier.replace(/\.js$/, '.ts'), context.parentURL)
      if (existsSync(fileURLToPath(source))) return next(source.href, context)
    }
    return next(specifier, context)
  }
})
