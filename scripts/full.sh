#!/usr/bin/env bash
# Runs all tests that are compiled, and fails unless they cover all of lib. With --changed, tap
# keeps the coverage of what it ran before, and runs only the tests that are left.
set -euo pipefail
node scripts/require-programs.js redis-server initdb pgbouncer chromium promtool
node scripts/tap.js --no-disable-coverage "$@" test
