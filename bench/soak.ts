// npm run bench:soak: ten minutes at full load with ever new callers, and how the heap fares. Writes docs/benchmarks-soak.md.
import { once } from 'node:events'
import { fork } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'

const minutes = Number(process.argv[2] ?? 10)

const child = fork(fileURLToPath(new URL('http/server.js', import.meta.url)), ['fastify-llm-quota', JSON.stringify({ limit: 10, asynchronousPreference: false, decisionsSubscribed: false })], { execArgv: ['--expose-gc'] })
const [{ address }] = await once(child, 'message')
let caller = 0
const rows: string[] = []
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
  rows.push(`| ${minute} | ${Math.round(result.requests.average)} | ${result.latency.p99} | ${(heap / 1e6).toFixed(1)} |`)
  console.log(rows.at(-1))
}
child.kill('SIGKILL')
writeFileSync('docs/benchmarks-soak.md', `# Soak

Written by \`npm run bench:soak\` on ${new Date().toISOString().slice(0, 10)}: ${cpus().length} cores, ${cpus()[0]?.model.trim()}, node ${process.version}; the embedded store, 20 connections
without a pause, ${caller.toLocaleString('en')} callers of whom 10,000 at a time have a counter.

| minute | requests a second | p99, ms | heap after collection, MB |
|---:|---:|---:|---:|
${rows.join('\n')}
`)
