// The directions in which the rooms of lib may import each other; `npm run check` enforces them.
const rooms = {
  subject: [],
  limit: [],
  caller: [],
  store: [],
  decision: ['subject', 'limit', 'caller', 'store'],
  usage: ['store', 'decision'],
  refusal: ['decision'],
  start: ['subject', 'limit', 'caller', 'store', 'decision', 'refusal'],
  metrics: ['subject', 'limit', 'store', 'decision', 'usage'],
  earlier: ['subject', 'limit', 'store', 'start'],
  testing: ['caller', 'store']
}

const entries = 'index|redis|postgres|metrics|earlier|testing'
const entryPoints = `^lib/(${entries})\\.ts$`
// Any other file beside the rooms, errors.ts and option-checks.ts, imports at most errors.ts of lib, and everything may import it.
const groundFloor = `^lib/(?!(${entries}|plugin|hook)\\.ts$)[^/]+\\.ts$`

const roomRules = Object.entries(rooms).map(([room, used]) => ({
  name: `${room}-imports-downwards`,
  comment: used.length === 0 ? `lib/${room} imports no other room.` : `Of the other rooms, lib/${room} imports only ${used.join(', ')}.`,
  severity: 'error',
  from: { path: `^lib/${room}/` },
  to: { path: '^lib/', pathNot: [`^lib/(${[room, ...used].join('|')})/`, groundFloor] }
}))

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    { name: 'no-cycle', comment: 'No file imports itself through others, types included.', severity: 'error', from: {}, to: { circular: true } },
    ...roomRules,
    { name: 'ground-floor', comment: 'The files beside the rooms import nothing of lib but errors.ts.', severity: 'error', from: { path: groundFloor }, to: { path: '^lib/', pathNot: '^lib/errors\\.ts$' } },
    {
      name: 'hook-below-plugin',
      comment: 'The hook imports only the rooms that a request passes through, and the files beside the rooms.',
      severity: 'error',
      from: { path: '^lib/hook\\.ts$' },
      to: { path: '^lib/(plugin\\.ts$|(start|metrics|earlier|testing)/)' }
    },
    { name: 'plugin-leaves-the-rest', comment: 'The plugin needs neither the metrics nor the earlier quota nor the test kit.', severity: 'error', from: { path: '^lib/plugin\\.ts$' }, to: { path: '^lib/(metrics|earlier|testing)/' } },
    { name: 'entry-points-on-top', comment: 'Nothing in lib imports an entry point.', severity: 'error', from: { path: '^lib/' }, to: { path: entryPoints } },
    { name: 'lib-stands-alone', comment: 'lib imports nothing else of the repository.', severity: 'error', from: { path: '^lib/' }, to: { path: '^(test|examples|bench|chaos|fuzz|scripts)/' } },
    { name: 'rooms-are-listed', comment: 'Every folder of lib is a room of the list above.', severity: 'error', from: {}, to: { path: '^lib/[^/]+/', pathNot: `^lib/(${Object.keys(rooms).join('|')})/` } }
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'types', 'default'] }
  }
}
