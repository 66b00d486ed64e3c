#!/usr/bin/env bash
# run-files.sh FILES: runs test files with the Node on the PATH, 22.18 or later, which strips types itself, so nothing is compiled. Most files
# spend part of their time waiting, so three at a time keep two processors busy.
set -euo pipefail
export TAP_TIMEOUT=240

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

fastify=$(node --print "require('${FASTIFY:-fastify}/package.json').version")
echo "Node $(node --version), Fastify $fastify, $# files"
printf '%s\n' "$@" | xargs -P 3 -I FILE bash -c 'run_file FILE'
