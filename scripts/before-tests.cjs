// Node.js loads this before each test file, and before the modules of tap.
const hooks = require('node:async_hooks')
const { syncBuiltinESMExports } = require('node:module')

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
syncBuiltinESMExports()
