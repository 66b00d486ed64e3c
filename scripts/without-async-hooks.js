// Loaded before each test file. tap follows every promise with an async hook, to know which test an
// error thrown later belongs to. That takes half of the CPU time of tests with many promises: 8.3 s
// instead of 4.1 s in store-contract-faults, 10.2 s instead of 4.9 s in simulation. Without hooks,
// such an error still fails the file.
import hooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const none = {
  enable: () => none,
  disable: () => none
}
hooks.createHook = () => none
syncBuiltinESMExports()
