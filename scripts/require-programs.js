// Makes sure that the programs that the tests run are on the PATH: as root it installs Debian's, and else it says what to install.
import { execFileSync, spawnSync } from 'node:child_process'

// Each program with those that serve in its place, and what Debian has of it; a browser without a font shows no text.
const known = {
  'redis-server': { instead: ['valkey-server'], debianPackages: ['redis-server'] },
  chromium: { instead: ['chromium-browser', 'google-chrome'], debianPackages: ['chromium', 'fonts-dejavu-core'] }
}

const missing = process.argv.slice(2).filter((program) => ![program, ...known[program].instead].some(isOnPath))
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
