// Node.js loads this in each process that runs tests, before the modules of tap.
const hooks = require('node:async_hooks')
const { writeSync } = require('node:fs')
const modules = require('node:module')
const { inspect } = require('node:util')

// The tests are compiled already. On Node.js 20, tap loads TypeScript for each file nevertheless,
// which takes 1.1 s of CPU time, unless its modules find this.
process.env.TAP_TYPE_STRIP_ONLY = '1'

// tap follows every promise with an async hook, to know which test an error thrown later belongs
// to. That takes half of the CPU time of tests with many promises: 8.3 s instead of 4.1 s in
// store-contract-faults. Without hooks, such an error still fails the file.
const none = {
  enable: () => none,
  disable: () => none
}
hooks.createHook = () => none

// tap's reporter shows nothing that a process writes to stderr, such as the error that ended it. A
// comment is part of the results.
process.on('uncaughtExceptionMonitor', (error) => {
  if (process.listenerCount('uncaughtException') > 0) return
  writeSync(1, `\n# Uncaught: ${inspect(error).replaceAll('\n', '\n# ')}\n`)
})

// tap's loaders are for coverage. The thread in which Node.js 20 runs them takes 1.2 s of CPU time
// for each process.
const { register } = modules
if (process.env.TAP_DISABLE_COVERAGE === '1') {
  modules.register = (specifier, ...options) => {
    if (!String(specifier).includes('/@tapjs/')) register(specifier, ...options)
  }
}

modules.syncBuiltinESMExports()
