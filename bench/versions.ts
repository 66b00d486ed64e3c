import { readFileSync } from 'node:fs'

/** Returns the versions of Node and of installed packages, by name. */
export function versionsOf (packages: readonly string[]): Record<string, string> {
  const installed = packages.map((name) => [name, JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8')).version])
  return { node: process.version, ...Object.fromEntries(installed) }
}
