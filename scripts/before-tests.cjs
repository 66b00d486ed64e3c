// Node.js loads this before each test file, and before the modules of tap. It saves more than half
// of the CPU time of `npm test` on Node.js 20.
const hooks = require('node:async_hooks')
const { readFileSync } = require('node:fs')
const modules = require('node:module')
const { setFlagsFromString } = require('node:v8')

// Most test files end before it pays to optimize their functions: a tenth of their CPU time on
// Node.js 20. Later versions do not have this flag.
if (process.version.startsWith('v20.')) setFlagsFromString('--interrupt-budget=1000000')

// The tests are compiled already. On Node.js 20, tap loads TypeScript for each file nevertheless,
// which takes 1.1 s of CPU time, unless its modules find this.
process.env.TAP_TYPE_STRIP_ONLY = '1'

// tap follows every promise with an async hook, to know which test an error thrown later belongs
// to. That takes half of the CPU time of tests with many promises: 8.3 s instead of 4.1 s in
// store-contract-faults, 10.2 s instead of 4.9 s in simulation. Without hooks, such an error still
// fails the file.
const none = {
  enable: () => none,
  disable: () => none
}
hooks.createHook = () => none

// tap's loaders are for coverage and for mockImport. The thread in which Node.js 20 runs them takes
// 1.2 s of CPU time for each file. The thread itself has no file.
const isCovered = process.env.TAP_DISABLE_COVERAGE !== '1'
const [, file] = process.argv
const needsLoaders = isCovered || file === undefined || usesMockImport(file)
const { register } = modules
if (!needsLoaders) {
  modules.register = (specifier, ...options) => {
    if (!String(specifier).includes('/@tapjs/')) register(specifier, ...options)
  }
}

modules.syncBuiltinESMExports()

function usesMockImport (test) {
  return readFileSync(test, 'utf8').includes('mockImport')
}
