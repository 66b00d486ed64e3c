// docs/shared-stores.md lists each table, column and sequence of schema.sql, and nothing else.
import { readFileSync } from 'node:fs'
import t from 'tap'

const page = readFileSync('docs/shared-stores.md', 'utf8')
const schema = readFileSync('lib/store/postgres/schema.sql', 'utf8')
const [, postgres = ''] = page.split('\n## PostgreSQL\n')

/** The names that a pattern finds first in a text. */
function namesIn (text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name = '']) => name)
}

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
