// npm run bench:soak: ten minutes at full load with ever new callers, and how the heap fares.
import { once } from 'node:events'
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'

const minutes = Number(process.argv[2] ?? 10)

const child = fork(fileURLToPath(new URL('http/server.js', import.meta.url)), ['fastify-llm-quota', JSON.stringify({ limit: 10, asynchronousPreference: false, decisionsSubscribed: false })], { execArgv: ['--expose-gc'] })
const [{ address }] = await once(child, 'message')
let caller = 0
console.log('| minute | requests a second | p99, ms | heap after collection, MB |\n|---:|---:|---:|---:|')
for (let minute = 1; minute <= minutes; minute++) {
  const result = await autocannon({
    url: `${address}/api/analyze-node`,
    connections: 20,
    duration: 60,
    setupClient (client) {
      // Ever new callers, past the cap.
      client.setRequests(Array.from({ length: 2_000 }, () => ({ headers: { 'x-subject': `caller ${++caller}` } })))
    }
  })
  child.send('heap')
  const [{ heap }] = await once(child, 'message')
  console.log(`| ${minute} | ${Math.round(result.requests.average)} | ${result.latency.p99} | ${(heap / 1e6).toFixed(1)} |`)
}
child.kill('SIGKILL')
