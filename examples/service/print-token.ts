import { parseArgs } from 'node:util'
import Fastify from 'fastify'
import { configuration } from './plugins/configuration.js'
import { ownIssuer, tokens } from './plugins/tokens.js'

const { positionals: [subject], values: { admin } } = parseArgs({ allowPositionals: true, options: { admin: { type: 'boolean', default: false } } })
if (subject === undefined) {
  console.error('Usage: npm run --silent token -- [--admin] SUBJECT')
  process.exit(2)
}

const app = Fastify()
await app.register(configuration)
await app.register(tokens)
console.log(app.jwt.sign({ iss: ownIssuer, sub: subject, ...(admin && { role: 'admin' }) }))
