import { createService } from './service.js'

const app = await createService()
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    app.close().catch((error: unknown) => {
      app.log.error(error)
    })
  })
}
const address = await app.listen({ host: app.config.HOST, port: app.config.PORT })
console.log(`
Serving at ${address}. Open it in a browser, or try:

  TOKEN=$(node build/examples/service/print-token.js alice)
  curl -i ${address}/api/analyze -H "authorization: Bearer $TOKEN" \\
    -H 'content-type: application/json' \\
    -d '{"businessText":"Our invoices went out late in March 2025. Customers in Berlin complain."}'
`)
