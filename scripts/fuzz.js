// npm run fuzz [-- SECONDS]: lets jazzer.js look for input that the quota reads wrongly. What it finds is printed and kept in
// build/fuzz/findings; `npm run fuzz -- FILE` replays one. Turn each into a test.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const [given = '180'] = process.argv.slice(2)
const corpus = 'build/fuzz/corpus'
const findings = 'build/fuzz/findings/'
mkdirSync(corpus, { recursive: true })
mkdirSync(findings, { recursive: true })

// Where to begin: a request for each operation and set of router options, an identity, and a preference.
for (const [index, target] of ['/context/api/analyze', '/context/api/justify-leaf', '/context/api/analyze-stream', '/context/api/%61nalyze-node', 'http://h/context/api/analyze'].entries()) {
  for (let options = 0; options < 32; options += 5) writeFileSync(`${corpus}/target-${index}-${options}`, Buffer.concat([Buffer.from([0, options]), Buffer.from(target)]))
}
writeFileSync(`${corpus}/identity`, Buffer.concat([Buffer.from([2]), Buffer.from('https://identity.example|alice', 'utf16le')]))
for (const preference of ['10', '-1', '0', '1e3', ' ']) writeFileSync(`${corpus}/preference-${preference.trim()}`, Buffer.concat([Buffer.from([3]), Buffer.from(preference)]))

const replay = existsSync(given)
const jazzer = createRequire(import.meta.url).resolve('@jazzer.js/core/dist/cli.js')
const { status } = spawnSync(process.execPath, [jazzer, 'build/fuzz/quota.cjs', ...(replay ? [given] : [corpus]), '-i', 'dist/cjs', '-i', 'find-my-way', '--timeout', '5000',
  '--', `-artifact_prefix=${findings}`, '-max_len=120', ...(replay ? [] : [`-max_total_time=${Number(given)}`])], { stdio: 'inherit' })
process.exit(status ?? 1)
