// What a host installs with the package has licences that ask for no more than their text.
import { execFileSync } from 'node:child_process'
import t, { type Test } from 'tap'

const permissive = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT']

interface Installed {
  readonly license?: string
  readonly dependencies?: Readonly<Record<string, Installed>>
}

t.test('each run-time dependency has a permissive licence', async (t) => {
  const listed = execFileSync(
    'npm',
    ['ls', '--omit=dev', '--workspaces=false', '--all', '--long', '--json'],
    { encoding: 'utf8' }
  )
  const { dependencies = {} }: Installed = JSON.parse(listed)
  t.ok(Object.keys(dependencies).length > 0)
  assertLicences(t, dependencies)
})

function assertLicences (t: Test, packages: Readonly<Record<string, Installed>>): void {
  for (const [name, { license, dependencies = {} }] of Object.entries(packages)) {
    t.ok(license !== undefined && permissive.includes(license), `${name}: ${license ?? 'none'}`)
    assertLicences(t, dependencies)
  }
}
