// The packed tarball is well-formed and works in every kind of project, with the lowest supported versions of its peers. The projects
// link to the packages of this repository, so nothing is installed.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'
import { plainEnvironment } from '../support/environment.js'

// Outside the repository, so that no project finds its packages.
const folders = mkdtempSync(join(tmpdir(), 'quota-package-'))
t.teardown(() => { rmSync(folders, { recursive: true }) })
const [{ filename }] = JSON.parse(execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folders], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
const tarball = join(folders, filename)
const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8'))

/** Creates an empty project with the packed package, its dependencies, and the given packages, some of them under another name. */
function createProject (...packages: (string | readonly [name: string, linked: string])[]) {
  const folder = mkdtempSync(join(folders, 'project-'))
  const own = join(folder, 'node_modules/fastify-llm-quota')
  mkdirSync(own, { recursive: true })
  execFileSync('tar', ['-xzf', tarball, '--strip-components=1', '-C', own])
  for (const entry of [...Object.keys(dependencies), '@types/node', ...packages]) {
    const [name, linked] = typeof entry === 'string' ? [entry, entry] : entry
    const link = join(folder, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(resolve('node_modules', linked), link)
  }
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  const run = (...words: string[]) => execFileSync(process.execPath, words, { cwd: folder, encoding: 'utf8', env: plainEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] })
  const compiler = [resolve('node_modules/typescript/bin/tsc'), '--strict', '--skipLibCheck', '--target', 'es2023', '--lib', 'es2024', '--types', 'node']
  return {
    write: (name: string, text: string) => { writeFileSync(join(folder, name), text) },
    run,
    /** Returns the errors of the compiler by file and line. */
    compile: (...words: string[]) => {
      const { stdout } = spawnSync(process.execPath, [...compiler, ...words], { cwd: folder, encoding: 'utf8', env: plainEnvironment() })
      return Object.fromEntries([...stdout.matchAll(/^(?:(\S+)\((\d+),\d+\): )?(error .*(?:\n .*)*)/gm)].map(([, file, line, error]) => [`${file} ${line}`, error]))
    }
  }
}

const program = `
const app = Fastify()
app.decorateRequest('user')
app.addHook('preValidation', async (request) => { request.user = quota.localAuthentication('alice') })
await app.register(plugin, { perMinute: 1 })
app.post('/api/analyze', async () => 'ran')
const received = []
for (let request = 0; request < 2; request++) received.push((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode)
console.log(JSON.stringify(received))
`

t.test('import and require load the plugin', async (t) => {
  const { write, run } = createProject('fastify', 'prom-client')
  const inFunction = `async function main () {${program}}\nmain()`
  const consumers = {
    'named.mjs': `import Fastify from 'fastify'\nimport * as quota from 'fastify-llm-quota'\nconst plugin = quota.quotaPlugin\n${program}`,
    'default.mjs': `import Fastify from 'fastify'\nimport plugin, * as quota from 'fastify-llm-quota'\n${program}`,
    'module.cjs': `const Fastify = require('fastify')\nconst quota = require('fastify-llm-quota')\nconst plugin = quota\n${inFunction}`,
    'default.cjs': `const Fastify = require('fastify')\nconst quota = require('fastify-llm-quota')\nconst plugin = quota.default\n${inFunction}`,
    'named.cjs': `const Fastify = require('fastify')\nconst { quotaPlugin: plugin, ...quota } = require('fastify-llm-quota')\n${inFunction}`
  }
  for (const [name, source] of Object.entries(consumers)) {
    write(name, source)
    t.same(JSON.parse(run(name)), [200, 429], name)
  }
})

// Code that must compile with the declarations of the package.
const typed = `
declare module 'fastify' {
  interface FastifyInstance { preferences: { theme: string } }
}

const app: FastifyInstance = Fastify()
app.register(quotaPlugin, { perMinute: 5, store: new MemoryQuotaStore({ clock: new VirtualClock().now }), mode: 'shadow' })
app.register(quotaPlugin)
app.register(earlierQuotaPlugin, { perMinute: 5 })
app.register(quotaMetricsPlugin)
app.register(quotaMetricsPlugin, { registry: new Registry() })
app.register(quotaMetricsPlugin, { registry: new Registry<OpenMetricsContentType>() })
const store: QuotaStore = app.quotaStore
const limit: number = app.quotaConfig.SERVICE_RATE_LIMIT_PER_MINUTE
app.get('/', async (request) => request.quota?.outcome)
app.post('/marked', { config: { quota: 'chat' } }, async (request) => await app.quotaStanding(request))
const theme: string = app.preferences.theme
const stores = [new RedisQuotaStore({ client: new Redis() }), new RedisQuotaStore({ client: new Cluster([]), shards: 4 })]
for (const { run } of quotaStoreContract(() => new InsuredQuotaStore({ primary: store }))) run()
const insured: InsuredQuotaStore = new InsuredQuotaStore({ primary: store })
console.log(limit, stores, insured, theme)
`

const imports = `
import Fastify, { type FastifyInstance } from 'fastify'
import { InsuredQuotaStore, MemoryQuotaStore, type QuotaStore, quotaPlugin } from 'fastify-llm-quota'
import { earlierQuotaPlugin } from 'fastify-llm-quota/earlier'
import { quotaMetricsPlugin } from 'fastify-llm-quota/metrics'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { quotaStoreContract, VirtualClock } from 'fastify-llm-quota/testing'
import { Cluster, Redis } from 'ioredis'
import { type OpenMetricsContentType, Registry } from 'prom-client'
`

const defaultImports = imports.replace('quotaPlugin }', 'default as quotaPlugin }').replace('{ earlierQuotaPlugin }', 'earlierQuotaPlugin').replace('{ quotaMetricsPlugin }', 'quotaMetricsPlugin')

const requires = `
import Fastify = require('fastify')
import type { FastifyInstance } from 'fastify'
import quotaPlugin = require('fastify-llm-quota')
import earlierQuotaPlugin = require('fastify-llm-quota/earlier')
import quotaMetricsPlugin = require('fastify-llm-quota/metrics')
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { quotaStoreContract, VirtualClock } from 'fastify-llm-quota/testing'
import { Cluster, Redis } from 'ioredis'
import { type OpenMetricsContentType, Registry } from 'prom-client'
import MemoryQuotaStore = quotaPlugin.MemoryQuotaStore
import InsuredQuotaStore = quotaPlugin.InsuredQuotaStore
type QuotaStore = quotaPlugin.QuotaStore
`

// Lines that must not compile, and what the compiler must name.
const mistakes: readonly (readonly [line: string, named: RegExp])[] = [
  ['app.register(quotaPlugin, { perMinutes: 5 })', /'perMinutes' does not exist/],
  ['app.register(quotaMetricsPlugin, { registry: {} })', /'{}' is not assignable to type 'QuotaMetricsRegistry/],
  ["app.register(quotaPlugin, { mode: 'audit' })", /'"audit"' is not assignable to type '"(?:enforce" \| "shadow|shadow" \| "enforce)"/],
  ['app.register(quotaPlugin, { store: {} })', /Property 'acquire' is missing in type '{}' but required in type 'QuotaStore'/],
  ["app.register(quotaPlugin, { operations: [{ method: 'GET' }] })", /'path' is missing/],
  ["app.post('/wrong', { config: { quota: 7 } }, async () => '')", /'number' is not assignable/],
  ['new RedisQuotaStore({})', /'client' is missing/]
]

t.test('the types resolve in modules of every kind, and the compiler reports each mistake', async (t) => {
  const { write, compile } = createProject('fastify', 'ioredis', 'prom-client')
  const before = `${imports}\nconst app: FastifyInstance = Fastify()\n//---\n`
  const expected = Object.fromEntries(mistakes.map(([, named], index) => [`mistakes.mts ${before.split('\n').length + index}`, named]))
  const mistaken = before + mistakes.map(([line]) => line).join('\n')
  const imported = (...names: string[]) => Object.fromEntries(names.map((name) => [name, (name.startsWith('imports') ? imports : defaultImports) + typed]))
  for (const [options, modules, errors] of [
    ['--module nodenext', { ...imported('imports.mts', 'imports.cts', 'default.mts', 'default.cts'), 'requires.cts': requires + typed, 'mistakes.mts': mistaken }, expected],
    ['--module esnext --moduleResolution bundler', imported('bundled.ts'), {}],
    ['--module commonjs --moduleResolution node10 --ignoreDeprecations 6.0 --esModuleInterop', { ...imported('imports.ts', 'default.ts'), 'requires.ts': requires + typed }, {}]
  ] as const) {
    for (const [name, source] of Object.entries(modules)) write(name, source)
    const found = compile(...options.split(' '), ...Object.keys(modules))
    t.match(found, errors, options)
    t.same(Object.keys(found), Object.keys(errors), 'no other line has a mistake')
  }
})

t.test('the package works with the lowest versions of Fastify, @fastify/jwt and prom-client in its peer ranges', async (t) => {
  const { write, run, compile } = createProject('ioredis', ['prom-client', 'prom-client-lowest'], ['fastify', 'fastify-lowest'], ['@fastify/jwt', 'fastify-jwt-lowest'])
  write('typed.mts', imports + typed)
  t.same(compile('--module', 'nodenext', 'typed.mts'), {}, 'the types compile')
  write('lowest.mjs', `
    import fastifyJwt from '@fastify/jwt'
    import Fastify from 'fastify'
    import quotaPlugin, { protectedOperations, quotaResponses } from 'fastify-llm-quota'
    import quotaMetricsPlugin from 'fastify-llm-quota/metrics'
    import { register } from 'prom-client'
    const warnings = []
    const app = Fastify({ ignoreTrailingSlash: true, caseSensitive: false, logger: { level: 'warn', stream: { write (line) { warnings.push(JSON.parse(line).msg) } } } })
    await app.register(fastifyJwt, { secret: 'a secret of thirty-two bytes or more' })
    app.addHook('onRequest', async (request) => { if (request.headers.authorization !== undefined) await request.jwtVerify() })
    app.get('/context/api/analyze-node', { schema: { response: quotaResponses } }, async (request) => request.quota.outcome)
    await app.register(quotaPlugin, { prefix: '/context', perMinute: 2 })
    await app.register(quotaMetricsPlugin)
    app.post('/context/api/analyze', async (request) => request.quota.outcome)
    const received = []
    for (const [method, url, sub] of [
      ['POST', '/context/api/analyze'], ['POST', '/context/API/%61nalyze/', 'alice'], ['GET', '/context/api/analyze-node?x', 'alice'],
      ['POST', '/context/api/analyze', 'alice'], ['POST', '/context/api/analyze', 'bob'], ['GET', '/context/api/analyze', 'alice']
    ]) received.push((await app.inject({ method, url, headers: sub ? { authorization: 'Bearer ' + app.jwt.sign({ iss: 'https://identity.example', sub }) } : {} })).statusCode)
    const rejected = (await register.metrics()).split('\\n').find((line) => line.includes('"rejected"'))
    console.log(JSON.stringify({ version: app.version, received, warned: warnings.some((warning) => /HEAD/.test(warning)), operations: protectedOperations.length, rejected }))
  `)
  t.same(JSON.parse(run('lowest.mjs')), {
    version: '5.0.0',
    received: [401, 200, 200, 429, 200, 404],
    warned: true,
    operations: 4,
    rejected: 'llm_quota_decisions_total{quota="default",operation="POST /api/analyze",outcome="rejected",enforced="true"} 1'
  })
})

t.test('the tarball is valid', async (t) => {
  const tool = (script: string, ...words: string[]) => execFileSync(process.execPath, [join('node_modules', script), ...words], { encoding: 'utf8', env: plainEnvironment() })
  t.match(tool('publint/src/cli.js', 'run', '--strict', tarball), 'All good!')
  t.doesNotThrow(() => tool('@arethetypeswrong/cli/dist/index.js', '--profile', 'strict', tarball), 'the types resolve in every resolution mode')
  const files = execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8' }).trim().split('\n')
  t.same(files.filter((file, index) => files.indexOf(file) !== index), [], 'the tarball contains no file twice')
  for (const page of files.filter((file) => file.endsWith('.md'))) {
    const text = execFileSync('tar', ['-xzOf', tarball, page], { encoding: 'utf8' })
    const linked = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, file = '']) => join(dirname(page), file))
    t.same(linked.filter((file) => !files.includes(file)), [], `the files to which ${page} links are in the package`)
  }
  t.ok(files.filter((file) => file.endsWith('.map')).every((file) => file.startsWith('package/dist/cjs/')), 'each module has one source map')
})
