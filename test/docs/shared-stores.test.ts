// docs/shared-stores.md describes the layout on Redis that the scripts read and write.
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'

const page = readFileSync('docs/shared-stores.md', 'utf8')
const layout = readFileSync('lib/store/redis/layout.part.lua', 'utf8')
const keys = readFileSync('lib/store/redis/keys.ts', 'utf8')

const [, version = ''] = /version = 'v(\d+)'/.exec(keys) ?? []

/** The keys in a table of the page, or of keys.ts. */
function keysIn (text: string): string[] {
  return [...text.matchAll(/^[ *]*\| `(<root>[^`]+)` \|/gm)].map(([, key = '']) => key)
}

t.test('the page lists the keys that the store has', async (t) => {
  t.equal(keysIn(keys).length, 3)
  t.same(keysIn(page), keysIn(keys))
  t.match(page, `\`v${version}:\``)
})

t.test('a counter has the numbers that the page lists, in their order', async (t) => {
  const row = page.split('\n').find((line) => line.includes('the counter of each caller'))
  const described = [...(row ?? '').matchAll(/`(\w+)`/g)].map(([, name = '']) => name)
  const [, names = ''] = /local ([\w, ]+) =\s+struct\.unpack\(COUNTER, text\)/.exec(layout) ?? []
  t.equal(described.length, 8)
  t.same(names.split(', '), described)
})

t.test('the page names files and scripts that exist', async (t) => {
  const files = readdirSync('lib/store', { recursive: true, encoding: 'utf8' })
  const named = [...page.matchAll(/`([\w/.-]+\.(?:ts|lua|sql))`/g)].map(([, name = '']) => name)
  t.ok(named.length > 10)
  for (const name of named) {
    const exists = files.some((file) => file.endsWith(name)) || name.startsWith('test/')
    t.ok(exists, name)
  }
})

t.test('the changelog names the layout on Redis and the schema on PostgreSQL', async (t) => {
  const changelog = readFileSync('CHANGELOG.md', 'utf8').replaceAll(/\s+/g, ' ')
  const schema = readFileSync('lib/store/postgres/schema.ts', 'utf8')
  const [, schemaVersion] = /schemaVersion = (\d+)/.exec(schema) ?? []
  t.match(changelog, `(layout ${version})`)
  t.match(changelog, `(schema ${schemaVersion}`)
})
