// npm test: compiles lib to dist/, and everything else, without checking types, and runs the tests
// that the arguments name, as tap.js says.
import { execFileSync } from 'node:child_process'
import './write-script-texts.js'
import './build.js'
import './documented.js'

// Only tests of the package and of its types need the types of dist/.
if (process.argv.slice(2).some((argument) => /^test(?:\/package|\/types|\/?$)/.test(argument))) {
  await import('./declarations.js')
}
const tsc = ['node_modules/typescript-7/bin/tsc', '--noCheck', '--noResolve']
execFileSync(process.execPath, tsc, { stdio: 'inherit' })
await import('./tap.js')
