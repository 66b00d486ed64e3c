// Checks that the given programs, which the tests need, are on the PATH, or where Debian installs
// them. Redis can also be elsewhere, if its path is in REDIS_SERVER, and so can PostgreSQL, if the
// folder of its programs is in POSTGRES_BIN. Installs missing programs if it runs as root on
// Debian; otherwise prints which packages to install.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { delimiter } from 'node:path'

// With this variable, the tests use no other server, so installing one does not help.
const redisServer = process.env.REDIS_SERVER
if (redisServer !== undefined && !isFound(redisServer)) {
  console.error(`REDIS_SERVER is '${redisServer}', which is not a program.`)
  process.exit(1)
}

const postgresVersions = '/usr/lib/postgresql'
const postgresFolders = existsSync(postgresVersions)
  ? readdirSync(postgresVersions).map((version) => `${postgresVersions}/${version}/bin`)
  : []
const folders = [process.env.PATH, process.env.POSTGRES_BIN ?? postgresFolders]
  .flat()
  .join(delimiter)

// Alternatives for each program, and its Debian packages. A browser needs fonts to show text.
const known = {
  'redis-server': {
    alternatives: ['valkey-server', redisServer ?? []].flat(),
    debianPackages: ['redis-server']
  },
  chromium: {
    alternatives: ['chromium-browser', 'google-chrome'],
    debianPackages: ['chromium', 'fonts-dejavu-core']
  },
  promtool: { alternatives: [], debianPackages: ['prometheus'] },
  initdb: { alternatives: [], debianPackages: ['postgresql'] },
  pgbouncer: { alternatives: [], debianPackages: ['pgbouncer'] }
}

const missing = process.argv
  .slice(2)
  .filter((program) => ![program, ...known[program].alternatives].some(isFound))
if (missing.length > 0) {
  const packages = missing.flatMap((program) => known[program].debianPackages)
  if (process.getuid?.() !== 0 || !isFound('apt-get')) {
    console.error(
      `The tests need ${missing.join(' and ')} on the PATH. ` +
        `Install Debian's ${packages.join(' and ')}, or run the tests as root.`
    )
    process.exit(1)
  }
  console.log(`Installing Debian's ${packages.join(' and ')}, which the tests need.`)
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  execFileSync('apt-get', ['update', '-qq'], { stdio: 'inherit', env: environment })
  const install = ['install', '-y', '-qq', '--no-install-recommends', ...packages]
  execFileSync('apt-get', install, { stdio: ['ignore', 'ignore', 'inherit'], env: environment })
}

/** @param program The name of a program, or its path. */
function isFound (program) {
  return spawnSync('which', [program], { env: { ...process.env, PATH: folders } }).status === 0
}
