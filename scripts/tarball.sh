#!/usr/bin/env bash
# npm run tarball: builds and packs the package as build/fastify-llm-quota-VERSION.tgz, and checks
# how its entry points and types resolve. What is released is this file.
set -euo pipefail
mkdir -p build
rm -f build/*.tgz
npm run --silent build
npm pack --silent --pack-destination build
npm exec --yes --package publint@0.3.25 -- publint run --strict build/*.tgz
# TypeScript's node10 does not know the field exports of package.json; TypeScript 6 warns of it.
npm exec --yes --package @arethetypeswrong/cli@0.18.5 -- attw --profile node16 build/*.tgz
