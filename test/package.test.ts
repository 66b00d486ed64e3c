// The packed tarball, installed beside Fastify in an empty project.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
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

t.test('the package works through import and require', async (t) => {
  const project = mkdtempSync(join(tmpdir(), 'quota-consumer-'))
  t.teardown(() => { rmSync(project, { recursive: true }) })
  const run = (command: string, ...words: string[]) => execFileSync(command, words, { cwd: project, encoding: 'utf8', env: plainEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] })
  const [{ filename }] = JSON.parse(execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', project], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
  writeFileSync(join(project, 'package.json'), '{ "private": true }')
  run('npm', 'install', '--silent', '--prefer-offline', '--no-audit', '--no-fund', `./${filename}`, 'fastify', 'ioredis', '@types/node@20')

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
  for (const [consumer, ...options] of [
    ['typed.mts', '--module', 'nodenext'],
    ['typed.cts', '--module', 'nodenext', '--esModuleInterop'],
    ['typed.ts', '--module', 'esnext', '--moduleResolution', 'bundler']
  ] as const) {
    writeFileSync(join(project, consumer), typedConsumer)
    t.doesNotThrow(() => run(process.execPath, tsc, '--noEmit', '--strict', '--target', 'es2023', '--lib', 'es2024', '--types', 'node', ...options, consumer), consumer)
  }
})
