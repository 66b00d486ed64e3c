// Checks that the given programs, which the tests need, are on the PATH. Installs missing ones if it runs as root on Debian; otherwise
// prints which packages to install.
import { execFileSync, spawnSync } from 'node:child_process'

// Alternatives for each program, and its Debian packages. A browser needs fonts to show text.
const known = {
  'redis-server': { alternatives: ['valkey-server'], debianPackages: ['redis-server'] },
  chromium: { alternatives: ['chromium-browser', 'google-chrome'], debianPackages: ['chromium', 'fonts-dejavu-core'] },
  promtool: { alternatives: [], debianPackages: ['prometheus'] },
  valgrind: { alternatives: [], debianPackages: ['valgrind'] }
}

const missing = process.argv.slice(2).filter((program) => ![program, ...known[program].alternatives].some(isOnPath))
if (missing.length > 0) {
  const packages = missing.flatMap((program) => known[program].debianPackages)
  if (process.getuid?.() !== 0 || !isOnPath('apt-get')) {
    console.error(`The tests need ${missing.join(' and ')} on the PATH. Install Debian's ${packages.join(' and ')}, or run the tests as root.`)
    process.exit(1)
  }
  console.log(`Installing Debian's ${packages.join(' and ')}, which the tests need.`)
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  execFileSync('apt-get', ['update', '-qq'], { stdio: 'inherit', env: environment })
  execFileSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages], { stdio: ['ignore', 'ignore', 'inherit'], env: environment })
}

function isOnPath (program) {
  return spawnSync('which', [program]).status === 0
}
