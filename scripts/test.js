// npm test: builds the package, without its types, and meanwhile compiles everything else, without
// checking types, and runs the tests that the arguments name, as tap.js says.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import './write-script-texts.js'
import './documented.js'

async function run (...words) {
  const [status] = await once(spawn(process.execPath, words, { stdio: 'inherit' }), 'exit')
  if (status !== 0) process.exit(1)
}

await Promise.all([
  run('scripts/build.js'),
  run('node_modules/typescript/bin/tsc', '--noCheck', '--noResolve')
])
await import('./tap.js')
