// What build.js and declarations.js share.
import { execFileSync } from 'node:child_process'

/** The entry points with a default export, and what that is. */
export const plugins = {
  index: 'quotaPlugin',
  metrics: 'quotaMetricsPlugin',
  earlier: 'earlierQuotaPlugin'
}

/** Returns the text of a module that exports what an entry point exports, and its default. */
export function passedOn (entry, plugin) {
  return (
    `export * from './${entry}.js'\n` + `export { ${plugin} as default } from './${entry}.js'\n`
  )
}

/** Compiles lib to dist/ with these options beside those of tsconfig.build.json. */
export function compileLib (...options) {
  const tsc = ['node_modules/typescript-7/bin/tsc', '-p', 'tsconfig.build.json', ...options]
  execFileSync(process.execPath, tsc, { stdio: 'inherit' })
}
