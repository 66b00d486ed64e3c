import neostandard, { resolveIgnoresFromGitignore } from 'neostandard'

const longest = 100

export default [
  ...neostandard({ ts: true, ignores: resolveIgnoresFromGitignore() }),
  {
    rules: {
      '@stylistic/max-len': ['error', { code: longest, comments: longest, ignoreUrls: true }]
    }
  }
]
