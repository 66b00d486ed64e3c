// The directions in which the rooms of lib may import each other; `npm run check` enforces them.
const rooms = {
  subject: [],
  limit: [],
  caller: [],
  store: [],
  model: [],
  permit: ['subject', 'limit', 'caller', 'store', 'model'],
  refusal: ['permit', 'model'],
  start: ['subject', 'limit', 'caller', 'store', 'permit', 'refusal'],
  metrics: ['store', 'permit'],
  earlier: ['subject', 'limit', 'store', 'start'],
  testing: ['caller', 'store']
}

const entries = '^lib/(index|redis|postgres|metrics|earlier|testing)\\.ts$'
// These take a request through the rooms. Every other file beside the rooms is the ground floor,
// which everything may import.
const passages = ['hook', 'plugin']
const entryPoints = 'index|redis|postgres|metrics|earlier|testing'
const groundFloor = `^lib/(?!(${entryPoints}|${passages.join('|')})\\.ts$)[^/]+\\.ts$`

// What channels.ts says that is published on each channel.
const messageTypes = '^lib/(permit/(decision|quota)|store/store)\\.ts$'

const rule = (name, comment, from, to) => ({ name, comment, severity: 'error', from, to })

const roomRules = Object.entries(rooms).map(([room, used]) =>
  rule(
    `${room}-imports-downwards`,
    used.length === 0
      ? `lib/${room} imports no other room.`
      : `Of the other rooms, lib/${room} imports only ${used.join(', ')}.`,
    { path: `^lib/${room}/` },
    { path: '^lib/', pathNot: [`^lib/(${[room, ...used].join('|')})/`, groundFloor] }
  )
)

const passageRules = passages.map((passage, index) =>
  rule(
    `${passage}-imports-downwards`,
    `lib/${passage}.ts imports only rooms that a request passes through` +
      `${index > 0 ? `, and ${passages.slice(0, index).join(' and ')}` : ''}.`,
    { path: `^lib/${passage}\\.ts$` },
    {
      path: [
        entries,
        '^lib/(metrics|earlier|testing)/',
        ...passages.slice(index + 1).map((above) => `^lib/${above}\\.ts$`),
        ...(passage === 'plugin' ? [] : ['^lib/start/'])
      ]
    }
  )
)

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    rule(
      'no-cycle',
      'No file imports itself through others, types included.',
      {},
      { circular: true }
    ),
    ...roomRules,
    ...passageRules,
    rule(
      'ground-floor',
      'The files beside the rooms import nothing of lib but each other, and in channels.ts types.',
      { path: groundFloor },
      { path: '^lib/', pathNot: [groundFloor, messageTypes] }
    ),
    rule(
      'entry-points-on-top',
      'Nothing in lib imports an entry point.',
      { path: '^lib/' },
      { path: entries }
    ),
    rule(
      'lib-stands-alone',
      'lib imports nothing else of the repository.',
      { path: '^lib/' },
      { path: '^(test|examples|bench|chaos|scripts)/' }
    ),
    rule(
      'packages-of-the-host',
      'Of the packages that a host installs itself, lib needs only prom-client when it runs, for ' +
        'an entry point of its own: it is an optional peer.',
      { path: '^lib/' },
      {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown', 'npm-optional', 'unknown'],
        dependencyTypesNot: ['npm', 'type-only'],
        pathNot: ['^node_modules/prom-client/', '\\.(lua|sql)\\.js$']
      }
    ),
    rule(
      'prom-client-for-metrics',
      'Nothing but lib/metrics needs prom-client.',
      { path: '^lib/', pathNot: '^lib/metrics/' },
      { path: '^node_modules/prom-client/' }
    ),
    rule(
      'rooms-are-listed',
      'Every folder of lib is a room of the list above.',
      {},
      { path: '^lib/[^/]+/', pathNot: `^lib/(${Object.keys(rooms).join('|')})/` }
    )
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'types', 'default']
    }
  }
}
