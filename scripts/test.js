// Runs test files that `npm run compile` has compiled, side by side: the given ones and those in the given folders of test/; without
// any, those that need Node alone; with `--full`, all of them, and then requires that they cover lib completely.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { pathToFileURL } from 'node:url'

const nodeAlone = ['docs', 'example', 'plugin', 'regressions', 'rules', 'stores'].map((name) => `test/${name}`)
const all = readdirSync('test').filter((name) => name !== 'support').map((name) => `test/${name}`)
const coverage = '.tap/coverage'

const full = process.argv[2] === '--full'
const given = full ? all : process.argv.slice(2)
const files = (given.length > 0 ? given : nodeAlone).flatMap((path) =>
  statSync(path).isDirectory() ? readdirSync(path).filter((name) => name.endsWith('.test.ts')).map((name) => `${path}/${name}`) : [path])

// Another package to import as `fastify`, such as `fastify-6`.
const options = process.env.FASTIFY === undefined ? [] : ['--import', './scripts/run-typescript.js']

if (full) rmSync('.tap', { recursive: true, force: true })
const failed = []
const waiting = [...files]
// The tests of servers and of the example spend part of their time waiting.
await Promise.all(Array.from({ length: availableParallelism() + 1 }, async () => {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) if (!await passes(file)) failed.push(file)
}))
if (full) requireCoverage()

console.log(`${files.length - failed.length} of ${files.length} test files passed.`)
for (const file of failed) console.log(`FAILED: ${file}`)
if (failed.length > 0) process.exitCode = 1
if (given.length === 0) {
  const others = all.filter((folder) => !nodeAlone.includes(folder)).join(', ')
  console.log(`Not run: ${others}, which need servers, a browser or other programs; the coverage of lib. \`npm run test:full\` runs everything.`)
}

async function passes (file) {
  const started = performance.now()
  const child = spawn(process.execPath, ['--enable-source-maps', ...options, `build/${file.replace(/\.ts$/, '.js')}`], {
    stdio: ['ignore', 'pipe', 'pipe'], timeout: 300_000, env: { ...process.env, TAP_TIMEOUT: '240', ...(full && { NODE_V8_COVERAGE: coverage }) }
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => { output += text })
  const [status] = await once(child, 'close')
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  if (files.length === 1) console.log(output)
  else if (status !== 0) console.log(failuresIn(output))
  console.log(`${status === 0 ? 'passed' : 'FAILED'}: ${file} (${seconds} s)`)
  return status === 0
}

/** The failures in TAP, each with its explanation, and everything that is not TAP. */
function failuresIn (output) {
  const failures = output.match(/^ *not ok .*(?:\n +---\n(?:.*\n)*? +\.\.\.)?|^(?! *(?:ok |not ok |#|\}|\d+\.\.\d|TAP version)).*\S.*$/gm)
  return failures?.join('\n') ?? output
}

function requireCoverage () {
  // The report counts each file that is in the data.
  const lib = pathToFileURL('build/lib/').href
  for (const name of readdirSync(coverage)) {
    const data = JSON.parse(readFileSync(`${coverage}/${name}`, 'utf8'))
    writeFileSync(`${coverage}/${name}`, JSON.stringify({ ...data, result: data.result.filter(({ url }) => url.startsWith(lib)) }))
  }
  if (spawnSync('npx', ['tap', 'report'], { stdio: 'inherit' }).status !== 0) failed.push('the coverage of lib')
}
