// The entry points of the built package, and what package.json says about them.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import t from 'tap'

const { name, exports, typesVersions, peerDependencies, devDependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
const subPaths = Object.keys(exports).flatMap((path) => /^\.\/(\w+)$/.exec(path)?.[1] ?? [])
const require = createRequire(import.meta.url)

for (const entry of [name, ...subPaths.map((path) => `${name}/${path}`)]) {
  t.test(`import and require of ${entry} give the same objects`, async (t) => {
    const required = require(entry)
    const { default: main, ...named } = await import(entry)
    for (const [name, value] of Object.entries(named)) if (name !== '__esModule') t.equal(required[name], value, name)
    if (main !== undefined) t.equal(required.default, main)
  })
}

t.test('each sub-path has types for resolvers that do not support `exports`', async (t) => {
  t.same(Object.keys(typesVersions['*']), subPaths)
})

t.test('the package is tested with the lowest version of each peer', async (t) => {
  for (const [alias, peer] of Object.entries({ 'fastify-lowest': 'fastify', 'fastify-jwt-lowest': '@fastify/jwt', 'prom-client-lowest': 'prom-client' })) {
    t.equal(devDependencies[alias], `npm:${peer}@${peerDependencies[peer].split(' ')[0].slice(1)}`)
  }
})
