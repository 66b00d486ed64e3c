// docs/shared-stores.md describes the layout on Redis that the scripts read and write, and lists
// each table, column and sequence of schema.sql, and nothing else.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'

const page = readFileSync('docs/shared-stores.md', 'utf8')
const layout = readFileSync('lib/store/redis/layout.part.lua', 'utf8')
const keys = readFileSync('lib/store/redis/keys.ts', 'utf8')
const schema = readFileSync('lib/store/postgres/schema.sql', 'utf8')
const [, postgres = ''] = page.split('\n## PostgreSQL\n')

const [, version = ''] = /version = 'v(\d+)'/.exec(keys) ?? []

/** The names that a pattern finds first in a text. */
function namesIn (text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name = '']) => name)
}

/** The keys in a table of the page, or of keys.ts. */
function keysIn (text: string): string[] {
  return namesIn(text, /^[ *]*\| `(<root>[^`]+)` \|/gm)
}

t.test('the page lists the keys that the store has', async (t) => {
  t.equal(keysIn(keys).length, 5)
  t.same(keysIn(page), keysIn(keys))
  t.match(page, `\`v${version}:\``)
})

t.test('a counter has the numbers that the page lists, in their order', async (t) => {
  const row = page.split('\n').find((line) => line.includes('the counter of each caller'))
  const described = namesIn(row ?? '', /`(\w+)`/g)
  const [, names = ''] = /local ([\w, ]+) =\s+struct\.unpack\(COUNTER, text\)/.exec(layout) ?? []
  t.equal(described.length, 8)
  t.same(names.split(', '), described)
})

const tablePattern = /^ +CREATE (?:UNLOGGED )?TABLE (\w+) \(\n(.*?)^ +\)/gms

t.test('the page lists the tables of the schema with their columns', async (t) => {
  const tables = [...schema.matchAll(tablePattern)]
  t.equal(tables.length, 5)
  for (const [, table = '', lines = ''] of tables) {
    const row = postgres.split('\n').find((line) => line.startsWith(`| \`${table}\` |`))
    const listed = namesIn(row?.split('|')[3] ?? '', /`(\w+)`/g)
    t.same(listed, namesIn(lines, /^ +([a-z_]+) /gm), table)
  }
})

t.test('the page names tables, sequences and functions of the schema only', async (t) => {
  const tables = namesIn(schema, tablePattern)
  const sequences = namesIn(schema, /CREATE SEQUENCE (\w+)/g)
  const functions = namesIn(schema, /^CREATE OR REPLACE FUNCTION (\w+)/gm)
  const listed = namesIn(postgres, /^\| `(llm_quota\w*)` \|/gm)
  t.same(listed, [...tables, ...sequences])
  const named = new Set(namesIn(page, /`(llm_quota\w*)`/g))
  const others = [...named].filter((name) => !listed.includes(name))
  t.same(others.filter((name) => !functions.includes(name)), [])
  t.ok(others.length > 2, 'and some of the functions')
})

t.test('the page names files and scripts that exist', async (t) => {
  const files = readdirSync('lib/store', { recursive: true, encoding: 'utf8' })
  const named = namesIn(page, /`([\w/.-]+\.(?:ts|lua|sql))`/g)
  t.ok(named.length > 10)
  for (const name of named) {
    t.ok(existsSync(name) || files.some((file) => file.endsWith(name)), name)
  }
})

t.test('the changelog names the layout on Redis and the schema on PostgreSQL', async (t) => {
  const changelog = readFileSync('CHANGELOG.md', 'utf8').replaceAll(/\s+/g, ' ')
  const versions = readFileSync('lib/store/postgres/schema.ts', 'utf8')
  const [, schemaVersion] = /schemaVersion = (\d+)/.exec(versions) ?? []
  t.match(changelog, `(layout ${version})`)
  t.match(changelog, `(schema ${schemaVersion}`)
})
