// docs/api matches the docstrings.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

function pages (folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .sort()
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
}

t.test('docs/api is up to date; `npm run api` updates it', async (t) => {
  const fresh = t.testdir()
  execFileSync(
    process.execPath,
    ['node_modules/typedoc/bin/typedoc', '--logLevel', 'Warn', '--out', fresh],
    { stdio: ['ignore', 'inherit', 'inherit'] }
  )
  t.same(pages('docs/api'), pages(fresh))
})
