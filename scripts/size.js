// npm run size: prints the size of the package and of its dependencies.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const [{ size, unpackedSize, entryCount }] = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'))
const direct = Object.keys(packages[''].dependencies)

// Finds the packages that are installed for a dependency, according to the lock file.
const brought = new Set()
const waiting = direct.map((name) => [name, ''])
for (const [name, from] of waiting) {
  const place = placeOf(name, from)
  if (place === undefined || brought.has(place)) continue
  brought.add(place)
  for (const further of Object.keys(packages[place].dependencies ?? {})) waiting.push([further, place])
}

function placeOf (name, from) {
  const folders = from.split('/node_modules/')
  for (let depth = folders.length; depth >= 0; depth--) {
    const place = `${folders.slice(0, depth).join('/node_modules/')}/node_modules/${name}`.replace(/^\//, '')
    if (place in packages) return place
  }
  return undefined
}

console.log(`${(size / 1000).toFixed(1)} kB packed, ${(unpackedSize / 1000).toFixed(1)} kB unpacked, ${entryCount} files; ${direct.length} dependencies, ${brought.size} packages with theirs`)
