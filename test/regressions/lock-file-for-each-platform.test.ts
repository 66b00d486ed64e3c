// `npm ci` fails if the lock file has no entry for a package that another one in it depends on, even for packages of other platforms.
// npm leaves such entries out when it updates a lock file beside installed packages.
import { readFileSync } from 'node:fs'
import t from 'tap'

type Entry = Partial<Record<'dependencies' | 'devDependencies' | 'optionalDependencies', Record<string, string>>> & { version?: string }

const { packages }: { packages: Record<string, Entry> } = JSON.parse(readFileSync('package-lock.json', 'utf8'))

/** Returns the version that a package gets of another: the one beside it, or in the nearest folder around it. */
function lockedVersion (dependent: string, name: string): string | undefined {
  const locked = packages[dependent === '' ? `node_modules/${name}` : `${dependent}/node_modules/${name}`]
  if (locked !== undefined || dependent === '') return locked?.version
  return lockedVersion(dependent.slice(0, Math.max(0, dependent.lastIndexOf('/node_modules/'))), name)
}

t.test('the lock file contains every package that another one depends on, for each platform', async (t) => {
  const missing = Object.entries(packages).flatMap(([dependent, { dependencies, devDependencies, optionalDependencies }]) =>
    Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }).filter(([name, range]) => {
      const version = lockedVersion(dependent, name)
      return version === undefined || (/^\d+\.\d+\.\d+$/.test(range) && version !== range)
    }).map(([name, range]) => `${name}@${range} of ${dependent}`))
  t.strictSame(missing, [])
})
