// npm run guard [-- --set | --write]: counts the instructions of an admitted and of a rejected request, and fails if one is above its bound in
// bench/instruction-bounds.json. With --set it writes the bounds, 10 % above the counted values; with --write the first part of docs/benchmarks.md.
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { writePart } from '../document.js'
import { assertValgrind, instructionsOf } from './counted-server.js'
import { inTurns } from './in-turns.js'
import { servers } from './scenarios.js'

const file = 'bench/instruction-bounds.json'
const processes = 3
// A third of what `npm run bench:instructions` sends, since the check should not take long.
const warmUpRequests = 20_000
const guarded = ['fastify-llm-quota, admitted', 'fastify-llm-quota, rejected']
const counts: Record<string, number[]> = {}

const isSetting = process.argv.includes('--set')
// Each major version of Node compiles differently.
const node = Number(process.versions.node.split('.')[0])

assertValgrind()
const stored: { readonly node: number, readonly bounds: Record<string, number> } = JSON.parse(readFileSync(file, 'utf8'))
if (!isSetting && stored.node !== node) throw new Error(`the bounds in ${file} are for Node ${stored.node}, and this is Node ${node}`)
await count()
const bounds = isSetting ? Object.fromEntries(guarded.map((name) => [name, Math.round(1.1 * added(name))])) : stored.bounds
if (isSetting) writeFileSync(file, `${JSON.stringify({ node, bounds }, undefined, 2)}\n`)
// V8 can compile the same program differently in each process, even the bare server. The process with the lowest count is used. If all
// three processes exceed the bound by chance, three more are tried.
if (!guarded.every(isWithin)) await count()
for (const name of guarded) {
  console.log(`${name}: adds ${Math.round(added(name))} instructions to a bare request; ${isWithin(name) ? 'within' : 'above'} its bound of ${bounds[name]}`)
  if (!isWithin(name)) process.exitCode = 1
}

if (process.argv.includes('--write')) writePart('cost', costText())

async function count (): Promise<void> {
  await inTurns(Array.from({ length: processes }, () => ['bare', ...guarded]).flat(), async (name) => {
    const server = servers[name]
    if (server === undefined) return
    const { usual } = await instructionsOf(server, warmUpRequests)
    console.log(`${name}: ${Math.round(usual)}`)
    counts[name] = [...counts[name] ?? [], usual]
  })
}

// V8 compiles differently on other processors and in other versions of Node. The difference from the bare server depends less on this than
// the total does, so the bare server is counted in the same run.
function added (name: string): number {
  return Math.min(...counts[name] ?? []) - Math.min(...counts['bare'] ?? [])
}

function costText (): string {
  const thousands = (instructions: number): string => (instructions / 1000).toFixed(1)
  return `## What does it cost me?

Most of the cost of a protected request is the SHA-256 digest of its caller. With the memory store, the request takes no further turn of the event
loop. For a request to any other route, the quota only looks up the route. Counted with \`npm run guard\` on ${new Date().toISOString().slice(0, 10)}:
${cpus()[0]?.model.trim() ?? 'unknown processor'}, node ${process.version}, the least of ${counts['bare']?.length ?? 0} processes of each server, as thousands of instructions in user space. The parts below
explain how they are counted; each says when it was measured.

| request | instructions | added by the quota |
|---|---:|---:|
| Fastify alone | ${thousands(Math.min(...counts['bare'] ?? []))} | |
${guarded.map((name) => `| ${name} | ${thousands(Math.min(...counts[name] ?? []))} | ${thousands(added(name))} |`).join('\n')}`
}

function isWithin (name: string): boolean {
  return added(name) <= (bounds[name] ?? 0)
}
