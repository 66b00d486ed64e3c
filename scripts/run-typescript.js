// For mutation tests and tests on other versions of Node: runs TypeScript with the types stripped by Node (22.18 or later), and resolves
// imports of built files to their sources. FASTIFY is the package to import as `fastify`, such as `fastify-6`.
import { existsSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'

const fastify = process.env.FASTIFY ?? 'fastify'

registerHooks({
  resolve (specifier, context, next) {
    if (context.parentURL?.endsWith('.ts') === true) {
      if (specifier === 'fastify') return next(fastify, context)
      if (specifier.startsWith('.') && specifier.endsWith('.js')) {
        const source = new URL(specifier.replace(/\.js$/, '.ts'), context.parentURL)
        if (existsSync(fileURLToPath(source))) return next(source.href, context)
      }
    }
    return next(specifier, context)
  }
})
