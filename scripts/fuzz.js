// npm run fuzz [-- SECONDS]: uses jsfuzz to search for input that the quota handles incorrectly, guided by coverage. A finding is printed
// and stored in a file. `npm run fuzz -- FILE` replays it. Turn each finding into a test. The fuzzer is installed under build/ and not in
// the project.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'

const [given = '180'] = process.argv.slice(2)
const home = resolve('build/fuzzer')
const target = 'build/fuzz/quota.cjs'

if (existsSync(given)) {
  await createRequire(import.meta.url)(resolve(target)).fuzz(readFileSync(given))
  console.log('The quota reads it rightly.')
  process.exit(0)
}

mkdirSync(home, { recursive: true })
if (!existsSync(`${home}/node_modules/jsfuzz`)) {
  writeFileSync(`${home}/package.json`, '{ "private": true }\n')
  execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', 'jsfuzz@1'], { cwd: home, stdio: 'inherit' })
}

// The initial corpus: requests to each operation with several router options, an identity, and preferences.
const corpus = `${home}/corpus`
mkdirSync(corpus, { recursive: true })
for (const [index, path] of ['/context/api/analyze', '/context/api/justify-leaf', '/context/api/analyze-stream', '/context/api/%61nalyze-node', 'http://h/context/api/analyze'].entries()) {
  for (let options = 0; options < 32; options += 5) writeFileSync(`${corpus}/target-${index}-${options}`, Buffer.concat([Buffer.from([0, options]), Buffer.from(path)]))
}
writeFileSync(`${corpus}/identity`, Buffer.concat([Buffer.from([2]), Buffer.from('https://identity.example|alice', 'utf16le')]))
for (const preference of ['10', '-1', '0', '1e3', ' ']) writeFileSync(`${corpus}/preference-${preference.trim()}`, Buffer.concat([Buffer.from([3]), Buffer.from(preference)]))

const fuzzer = spawn(process.execPath, [`${home}/node_modules/jsfuzz/build/src/index.js`, target, corpus], { stdio: 'inherit', detached: true })
const ended = once(fuzzer, 'exit')
const enough = setTimeout(() => { process.kill(-fuzzer.pid, 'SIGKILL') }, Number(given) * 1000)
const [status] = await ended
clearTimeout(enough)
console.log(status === null ? `Nothing found in ${given} s.` : 'Something was found; see above.')
process.exitCode = status === null ? 0 : 1
