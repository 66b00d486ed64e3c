// Runs tests that are compiled: files, such as test/rules/caller.test.ts, folders, such as
// test/rules, all of `test`, or, without any of these, those that need Node.js alone. Passes its
// other arguments on to tap. Prints what fails, and how many assertions there were.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { failuresIn } from './failures.js'

// The folders of tests that need Node.js alone. The files of each run in one process, because for
// most of them, starting Node.js and tap and loading Fastify takes as long as the tests. The
// longest come first: tap runs files in the order of their names, which begin with a number.
const together = [
  'rules',
  'docs',
  'stores',
  'example',
  'model',
  'plugin',
  'regressions'
]

// tsc leaves what it has compiled of a test that is gone.
for (const name of readdirSync('build/test', { recursive: true, encoding: 'utf8' })) {
  if (name.endsWith('.test.js') && !existsSync(`test/${name.replace(/js$/, 'ts')}`)) {
    rmSync(`build/test/${name}`)
  }
}

/** Returns the files for tap of the folder of tests, such as `rules`. */
function filesOf (folder) {
  const names = readdirSync(`build/test/${folder}`).filter((name) => name.endsWith('.test.js'))
  const place = together.indexOf(folder)
  if (place === -1) return names.map((name) => `build/test/${folder}/${name}`)
  const file = `build/together/${place}-${folder}.test.js`
  const text = names.map((name) => `import '../test/${folder}/${name}'\n`).join('')
  mkdirSync('build/together', { recursive: true })
  // A file that was written anew would have changed for tap's --changed.
  if (!existsSync(file) || readFileSync(file, 'utf8') !== text) writeFileSync(file, text)
  return [file]
}

/** Returns what the argument stands for: files for tap or, if it names no test, itself. */
function wordsFor (argument) {
  const path = argument.replaceAll('\\', '/').replace(/^\.\/|\/$/g, '')
  if (path === 'test') {
    return [...new Set([...together, ...readdirSync('build/test')])].flatMap(filesOf)
  }
  if (!path.startsWith('test/')) return [argument]
  if (path.endsWith('.ts')) return [`build/${path.replace(/ts$/, 'js')}`]
  return filesOf(path.slice('test/'.length))
}

const words = process.argv.slice(2).flatMap(wordsFor)
if (!words.some((word) => word.startsWith('build/'))) words.push(...together.flatMap(filesOf))

const env = {
  // Without CI, tap's reporter draws over its last lines again and again, even in a file.
  ...(!process.stdout.isTTY && { CI: 'true' }),
  // The tests are compiled already: tap need not load TypeScript for each file.
  TAP_TYPE_STRIP_ONLY: '1',
  ...process.env
}
/** How many failures are shown at the end. */
const mostFailures = 20
const preload = '--node-arg=--require=./scripts/before-tests.cjs'
const results = 'build/results.tap'
rmSync(results, { force: true })
const tap = ['node_modules/tap/dist/esm/run.mjs', preload, `--output-file=${results}`, ...words]
const { status } = spawnSync(process.execPath, tap, {
  stdio: 'inherit',
  env
})
// The reporter prints no totals, and into a file no failures, but a line without an end.
if (existsSync(results)) {
  const text = readFileSync(results, 'utf8')
  const failures = failuresIn(text)
  if (status !== 0 && failures.length === 0) {
    failures.push('FAIL No test has failed. The tests do not cover all of lib, as shown above.')
  }
  // Such as `# { total: 8722, pass: 8722 }` and `# time=60123ms`.
  const totals = text.match(/^# (\{.*|time=.*)/gm) ?? []
  console.log(['', ...failures.slice(0, mostFailures), ...totals].join('\n'))
  if (failures.length > mostFailures) {
    console.log(`The first ${mostFailures} of ${failures.length} failures are above.`)
  }
}
process.exitCode = status ?? 1
