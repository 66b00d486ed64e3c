// The packed tarball: well made, and installed beside the newest and the oldest Fastify that it names, in empty projects.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { plainEnvironment } from './support/environment.js'

const program = `
const app = Fastify()
app.decorateRequest('user')
app.addHook('preValidation', async (request) => { request.user = quota.localAuthentication('alice') })
await app.register(quota.default, { perMinute: 1 })
app.post('/api/analyze', async () => 'ran')
const answers = []
for (let request = 0; request < 2; request++) answers.push((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode)
console.log(JSON.stringify(answers))
`

// What compiles, and what must not, against the declarations of the package.
const typedConsumer = `
import Fastify, { type FastifyInstance } from 'fastify'
import quotaPlugin, { InsuredQuotaStore, MemoryQuotaStore, type QuotaStore } from 'fastify-llm-quota'
import earlierQuotaPlugin from 'fastify-llm-quota/earlier'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { quotaStoreContract, VirtualClock } from 'fastify-llm-quota/testing'
import { Cluster, Redis } from 'ioredis'

const app: FastifyInstance = Fastify()
app.register(quotaPlugin, { perMinute: 5, store: new MemoryQuotaStore({ clock: new VirtualClock().now }), mode: 'shadow' })
app.register(earlierQuotaPlugin, { perMinute: 5 })
const store: QuotaStore = app.quotaStore
const limit: number = app.quotaConfig.SERVICE_RATE_LIMIT_PER_MINUTE
const preference: unknown = app.preferences?.get('rate-limit.per-minute', JSON.parse('{}'))
app.get('/', async (request) => request.quota?.outcome)
const stores = [new RedisQuotaStore({ client: new Redis() }), new RedisQuotaStore({ client: new Cluster([]), shards: 4 })]
for (const { run } of quotaStoreContract(() => new InsuredQuotaStore({ primary: store }))) run()
console.log(limit, preference, stores)

// @ts-expect-error there is no such option
app.register(quotaPlugin, { perMinutes: 5 })
// @ts-expect-error the mode is one of two
app.register(quotaPlugin, { mode: 'audit' })
// @ts-expect-error a store needs acquire
app.register(quotaPlugin, { store: {} })
// @ts-expect-error an operation has a path
app.register(quotaPlugin, { operations: [{ method: 'GET' }] })
// @ts-expect-error a client is needed
new RedisQuotaStore({})
`

/** An empty project with the packed package in it. */
function install (t: Test, ...packages: string[]) {
  const project = mkdtempSync(join(tmpdir(), 'quota-consumer-'))
  t.teardown(() => { rmSync(project, { recursive: true }) })
  const run = (command: string, ...words: string[]) => execFileSync(command, words, { cwd: project, encoding: 'utf8', env: plainEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] })
  const [{ filename }] = JSON.parse(execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', project], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
  writeFileSync(join(project, 'package.json'), '{ "private": true }')
  run('npm', 'install', '--silent', '--prefer-offline', '--no-audit', '--no-fund', `./${filename}`, ...packages)
  return { project, tarball: join(project, filename), run }
}

t.test('the package works through import and require', async (t) => {
  const { project, tarball, run } = install(t, 'fastify@5', 'ioredis', '@types/node@20')

  writeFileSync(join(project, 'consumer.mjs'), `import Fastify from 'fastify'\nimport * as quota from 'fastify-llm-quota'\n${program}`)
  writeFileSync(join(project, 'consumer.cjs'), `const Fastify = require('fastify')\nconst quota = require('fastify-llm-quota')\nasync function main () {\n${program.replace('quota.default', 'quota')}\n}\nmain()`)
  for (const consumer of ['consumer.mjs', 'consumer.cjs']) t.same(JSON.parse(run(process.execPath, consumer)), [200, 429], consumer)

  writeFileSync(join(project, 'shared.mjs'), `
    import { createRequire } from 'node:module'
    import { MemoryQuotaStore, quotaPlugin } from 'fastify-llm-quota'
    const required = createRequire(import.meta.url)('fastify-llm-quota')
    console.log(MemoryQuotaStore === required.MemoryQuotaStore && quotaPlugin === required.quotaPlugin)
  `)
  t.equal(run(process.execPath, 'shared.mjs'), 'true\n', 'both halves of an application share one copy')

  const tsc = join(process.cwd(), 'node_modules/typescript/bin/tsc')
  for (const [consumers, ...options] of [
    [['typed.mts', 'typed.cts'], '--module', 'nodenext'],
    [['typed.ts'], '--module', 'esnext', '--moduleResolution', 'bundler']
  ] as const) {
    for (const consumer of consumers) writeFileSync(join(project, consumer), typedConsumer)
    t.doesNotThrow(() => run(process.execPath, tsc, '--noEmit', '--strict', '--target', 'es2023', '--lib', 'es2024', '--types', 'node', ...options, ...consumers), consumers.join(', '))
  }

  const tool = (script: string, ...words: string[]) => run(process.execPath, join(process.cwd(), 'node_modules', script), ...words)
  t.match(tool('publint/src/cli.js', 'run', '--strict', tarball), 'All good!')
  // Sub-paths cannot be found by the resolution of Node 10, which no Node that is supported uses.
  t.doesNotThrow(() => tool('@arethetypeswrong/cli/dist/index.js', '--profile', 'node16', tarball), 'types resolve whichever way they are asked for')
})

t.test('the oldest Fastify that the peer range names', async (t) => {
  const { peerDependencies: { fastify } } = JSON.parse(readFileSync('package.json', 'utf8'))
  const { project, run } = install(t, `fastify@${fastify.replace('^', '')}`)
  writeFileSync(join(project, 'oldest.mjs'), `
    import Fastify from 'fastify'
    import quotaPlugin, { localAuthentication, protectedOperations, quotaResponses } from 'fastify-llm-quota'
    const warnings = []
    const app = Fastify({ ignoreTrailingSlash: true, caseSensitive: false, logger: { level: 'warn', stream: { write (line) { warnings.push(JSON.parse(line).msg) } } } })
    app.get('/context/api/analyze-node', { schema: { response: quotaResponses } }, async (request) => request.quota.outcome)
    await app.register(quotaPlugin, { prefix: '/context', perMinute: 2, authentication: ({ headers }) => headers['x-caller'] && localAuthentication(headers['x-caller']) })
    app.post('/context/api/analyze', async (request) => request.quota.outcome)
    const answers = []
    for (const [method, url, caller] of [
      ['POST', '/context/api/analyze'], ['POST', '/context/API/%61nalyze/', 'alice'], ['GET', '/context/api/analyze-node?x', 'alice'],
      ['POST', '/context/api/analyze', 'alice'], ['POST', '/context/api/analyze', 'bob'], ['GET', '/context/api/analyze', 'alice']
    ]) answers.push((await app.inject({ method, url, headers: caller ? { 'x-caller': caller } : {} })).statusCode)
    console.log(JSON.stringify({ version: app.version, answers, warned: warnings.some((warning) => /HEAD/.test(warning)), operations: protectedOperations.length }))
  `)
  t.same(JSON.parse(run(process.execPath, 'oldest.mjs')), { version: '5.0.0', answers: [401, 200, 200, 429, 200, 404], warned: true, operations: 4 })
})
