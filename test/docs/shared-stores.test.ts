// docs/shared-stores.md describes the layout on Redis that the scripts read and write.
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'

const page = readFileSync('docs/shared-stores.md', 'utf8')
const layout = readFileSync('lib/store/redis/layout.part.lua', 'utf8')
const decide = readFileSync('lib/store/redis/decide.lua', 'utf8')

const [, version = ''] = /LAYOUT = '(layout:\d+)'/.exec(layout) ?? []

/** The names in the record of a field on the page. */
function describedRecord (field: string): string[] {
  const row = page.split('\n').find((line) => line.includes(`| ${field} |`))
  const [, , , record = ''] = row?.split('|') ?? []
  return [...record.matchAll(/`(\w+)`/g)].map(([, name = '']) => name)
}

/** The names to which a script assigns the numbers of a record. */
function readRecord (script: string, assigned: RegExp): string[] {
  const names = assigned.exec(script)?.[1]?.split(',') ?? []
  return names.map((name) => name.trim())
}

t.test('each record has the numbers that the page lists, in their order', async (t) => {
  const records: [field: string, script: string, assigned: RegExp, numbers: number][] = [
    [`\`${version}\``, layout, /local ([\w, ]+) =\s+struct\.unpack\('dddd',/, 4],
    ['`S:windows:<quota>`', decide, /local ([\w, ]+) =\s+unpackNumbers\(QUOTA,/, 6],
    ['caller', layout, /local ([\w, ]+) =\s+struct\.unpack\('ddddddd',/, 7]
  ]
  for (const [field, script, assigned, numbers] of records) {
    const described = describedRecord(field)
    t.equal(described.length, numbers, field)
    t.same(readRecord(script, assigned), described, field)
  }
})

t.test('the page lists the keys and fields that the scripts describe', async (t) => {
  const described = [...layout.matchAll(/`(?:<shard>:)?((?:windows|places):<quota>[^`]*)`/g)]
  const named = [...page.matchAll(/`(?:S:)?((?:windows|places):<quota>[^`]*)`/g)]
  const namesIn = (found: readonly RegExpMatchArray[]) =>
    [...new Set(found.map(([, name = '']) => name))].sort()
  t.equal(namesIn(described).length, 4)
  t.same(namesIn(named), namesIn(described))
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
  t.match(changelog, `(layout ${version.replace('layout:', '')})`)
  t.match(changelog, `(schema ${schemaVersion})`)
})
