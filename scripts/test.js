// npm test: builds the package, compiles everything else, without checking types, and runs the
// tests that the arguments name, as tap.js says.
import { execFileSync } from 'node:child_process'
import './write-script-texts.js'
import './build.js'
import './documented.js'

const tsc = ['node_modules/typescript-7/bin/tsc', '--noCheck', '--noResolve']
execFileSync(process.execPath, tsc, { stdio: 'inherit' })
await import('./tap.js')
