import { parseArgs } from 'node:util'
import Fastify from 'fastify'
import { configuration } from './plugins/configuration.js'
import { ownIssuer, ownTokens } from './plugins/tokens.js'

const { positionals: [subject], values: { admin } } = parseArgs({ allowPositionals: true, options: { admin: { type: 'boolean', default: false } } })
if (subject === undefined) {
  console.error('Usage: npm run --silent token -- [--admin] SUBJECT')
  process.exit(2)
}

const app = Fastify()
await app.register(configuration)
await app.register(ownTokens)
if (app.config.JWT_ISSUER !== '') {
  console.error(`The service accepts the tokens of ${app.config.JWT_ISSUER} alone, as JWT_ISSUER says; get one there.`)
  process.exit(2)
}
console.log(app.jwt.sign({ iss: ownIssuer, sub: subject, ...(admin && { role: 'admin' }) }))
