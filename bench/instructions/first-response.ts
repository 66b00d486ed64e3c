// Shows the cost of the first 200 after many 429s, with Fastify alone. `node --trace-deopt` lists the compiled functions that V8 discards,
// and the program prints the CPU time of the requests before and after.
import Fastify from 'fastify'
import { Client } from './client.js'

const app = Fastify()
let isRejecting = true
app.addHook('preHandler', (_request, reply, done) => {
  if (isRejecting) reply.code(429).header('cache-control', 'no-store').send({ error: 'Please wait.', status: 429 })
  else done()
})
app.get('/', async () => ({ answer: 'from a model' }))
const address = await app.listen({ port: 0, host: '127.0.0.1' })

const client = await Client.connect(Number(new URL(address).port))
await client.send(30_000, '/', [{}], 429)
console.log(`nothing but 429: ${await microseconds()} µs of CPU a request`)
isRejecting = false
await client.send(1, '/', [{}], 200)
isRejecting = true
for (let round = 1; round <= 3; round++) console.log(`after one 200, requests ${1_000 * (round - 1) + 1} to ${1_000 * round}: ${await microseconds()} µs`)
client.close()
await app.close()

async function microseconds (): Promise<string> {
  const before = process.cpuUsage()
  await client.send(1_000, '/', [{}], 429)
  const { user, system } = process.cpuUsage(before)
  return ((user + system) / 1_000).toFixed(1)
}
