// npm run bench:instructions [-- --processes 10] [-- --server NAME]… [-- --add]: counts the instructions of a request to each server in so
// many processes, and writes the first part of docs/benchmarks.md. With --add the processes are added to those of earlier runs.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { versionsOf } from '../versions.js'
import { assertValgrind, instructionsOf, type Instructions } from './counted-server.js'
import { inTurns } from './in-turns.js'
import { writeReport, type Counts } from './report.js'
import { servers } from './scenarios.js'

const results = 'build/bench/instructions.json'
const { values } = parseArgs({ options: { processes: { type: 'string', default: '10' }, server: { type: 'string', multiple: true }, add: { type: 'boolean', default: false } } })
const names = values.server ?? Object.keys(servers)

assertValgrind()
const processes: Record<string, Instructions[]> = values.add && existsSync(results) ? JSON.parse(readFileSync(results, 'utf8')).processes : {}
mkdirSync('build/bench', { recursive: true })
const unknown = names.find((name) => servers[name] === undefined)
if (unknown !== undefined) throw new Error(`there is no server ${unknown}, only ${Object.keys(servers).join(', ')}`)
const turns = Array.from({ length: Number(values.processes) }, () => names).flat()
await inTurns(turns, async (name) => {
  const server = servers[name]
  if (server === undefined) return
  const instructions = await instructionsOf(server)
  console.log(`${name}: ${Math.round(instructions.usual)}, mean ${Math.round(instructions.mean)}`)
  processes[name] = [...processes[name] ?? [], instructions]
  writeFileSync(results, JSON.stringify({ processes }, undefined, 1))
})

const counts: Counts = {
  date: new Date().toISOString().slice(0, 10),
  machine: cpus()[0]?.model.trim() ?? '',
  versions: versionsOf(['fastify', '@fastify/rate-limit', 'rate-limiter-flexible']),
  processes,
  promises: JSON.parse(execFileSync(process.execPath, [fileURLToPath(new URL('promises.js', import.meta.url))], { encoding: 'utf8' }))
}
writeReport(counts)
console.log('Done: docs/benchmarks.md')
