import { parseArgs } from 'node:util'
import Fastify from 'fastify'
import authentication from './plugins/authentication.js'
import environment from './plugins/environment.js'

const {
  positionals: [sub],
  values: { admin }
} = parseArgs({ allowPositionals: true, options: { admin: { type: 'boolean' } } })
if (sub === undefined) {
  console.error('Usage: node build/examples/service/print-token.js [--admin] SUBJECT')
  process.exit(2)
}
const app = Fastify()
await app.register(environment)
await app.register(authentication)
console.log(app.jwt.sign({ sub, ...(admin === true && { role: 'admin' }) }))
