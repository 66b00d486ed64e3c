// docs/shared-stores.md describes the layout that the scripts read and write.
import { readFileSync } from 'node:fs'
import t from 'tap'

const page = readFileSync('docs/shared-stores.md', 'utf8')
const folder = 'lib/store/redis'
const layout = readFileSync(`${folder}/layout.part.lua`, 'utf8')
const places = readFileSync(`${folder}/places.part.lua`, 'utf8')

/** The names of a record on the page, of the field whose name begins with this. */
function describedRecord (field: string): string[] {
  const row = page.split('\n').find((line) => line.includes(`| \`${field}`))
  const [, , , record = ''] = row?.split('|') ?? []
  const own = record.split(';')[0] ?? ''
  return [...own.matchAll(/`(\w+)`/g)].map(([, name = '']) => name)
}

/** The names to which a script assigns the numbers of a record. */
function readRecord (script: string, format: string): string[] {
  const list = '((?:[\\w.]+,\\s+)*[\\w.]+)'
  const assignment = new RegExp(`${list} =\\s+struct\\.unpack\\(${format}, `).exec(script)
  const names = assignment?.[1]?.split(',') ?? []
  return names.map((name) => name.trim().replace(/^\w+\./, ''))
}

const [, clockField = ''] = /CLOCK_FIELD <const> = '(.+)'/.exec(layout) ?? []

t.test('each record has the numbers that the page lists, in their order', async (t) => {
  const records: [field: string, script: string, format: string][] = [
    [clockField, layout, 'CLOCK'],
    ['quota:<quota>', layout, 'QUOTA'],
    ['<quota> <caller>', layout, 'COUNTER'],
    ['cleaning', places, 'CLEANING'],
    ['process <process>', places, 'PROCESS'],
    ['held <process> <quota> <caller>', places, 'HOLDING']
  ]
  for (const [field, script, format] of records) {
    const described = describedRecord(field)
    t.ok(described.length > 1, `the page describes ${field}`)
    const [, numbers = ''] = new RegExp(`${format} <const> = '(d+)'`).exec(script) ?? []
    t.equal(described.length, numbers.length, field)
    const shown = readRecord(script, format).map((name) => name.replace('heldBefore', 'held'))
    t.same(shown, described, field)
  }
})

t.test('the page lists every kind of field', async (t) => {
  const prefixes = [...places.matchAll(/'([a-z]+) '/g)].map(([, kind = '']) => `| \`${kind} <`)
  t.same([...new Set(prefixes)].sort(), [
    '| `callers <',
    '| `held <',
    '| `process <',
    '| `total <'
  ])
  for (const prefix of [...prefixes, `| \`${clockField}\``, '| `cleaning`', '| `quota:<']) {
    t.ok(page.includes(prefix), prefix)
  }
})

t.test('the changelog names the layout on Redis and the schema on PostgreSQL', async (t) => {
  const changelog = readFileSync('CHANGELOG.md', 'utf8').replaceAll(/\s+/g, ' ')
  const schema = readFileSync('lib/store/postgres/schema.ts', 'utf8')
  const [, schemaVersion] = /schemaVersion = (\d+)/.exec(schema) ?? []
  t.match(changelog, `(layout ${clockField.replace('layout:', '')};`)
  t.match(changelog, `(schema ${schemaVersion})`)
})
