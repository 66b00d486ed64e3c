// docs/shared-stores.md lists each table and column of schema.sql, and nothing else.
import { readFileSync } from 'node:fs'
import t from 'tap'

const page = readFileSync('docs/shared-stores.md', 'utf8')
const schema = readFileSync('lib/store/postgres/schema.sql', 'utf8')

/** The tables of the schema, with their columns. */
function tablesOfSchema (): Map<string, string[]> {
  const tables = schema.matchAll(
    /^ *CREATE UNLOGGED TABLE (?<table>\w+) \(\n(?<lines>.*?)^ *\)/gms
  )
  return new Map(
    [...tables].map(({ groups }) => [
      groups?.table ?? '',
      [...(groups?.lines ?? '').matchAll(/^ {4}([a-z_]+) /gm)].map(([, column = '']) => column)
    ])
  )
}

/** The tables of the page, with the columns that stand first in each row. */
function tablesOfPage (): Map<string, string[]> {
  const sections = page.matchAll(/^#### (?<table>llm_quota\w*)\n(?<text>.*?)(?=^#)/gms)
  return new Map(
    [...sections].map(({ groups }) => [
      groups?.table ?? '',
      [...(groups?.text ?? '').matchAll(/^\| `(\w+)` \|/gm)].map(([, column = '']) => column)
    ])
  )
}

t.test('the page about shared stores has the tables and columns of PostgreSQL', async (t) => {
  t.equal(tablesOfSchema().size, 3)
  t.same(tablesOfPage(), tablesOfSchema())
})

t.test('the page names functions of the schema only', async (t) => {
  const functions = schema.matchAll(/^CREATE OR REPLACE FUNCTION (\w+)/gm)
  const known = new Set([...tablesOfSchema().keys(), ...[...functions].map(([, name]) => name)])
  const named = [...page.matchAll(/`(llm_quota\w*)`/g)].map(([, name = '']) => name)
  t.same(
    named.filter((name) => !known.has(name)),
    []
  )
})
