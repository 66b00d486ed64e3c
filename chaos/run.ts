// npm run chaos: runs two instances with a real server under kills, freezes, stalls, losses, slow answers and clock steps.
import { parseArgs } from 'node:util'
import { runChaos } from './chaos.js'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 32)) },
    seconds: { type: 'string', default: '180' },
    client: { type: 'string', default: 'ioredis' },
    faults: { type: 'string' }
  }
})
const seed = Number(values.seed)
const failures = await runChaos({ seed, seconds: Number(values.seconds), client: values.client, faults: values.faults?.split(','), log: console.log })
console.log(failures.length === 0
  ? 'everything was as promised'
  : `${failures.length} failures; to see them again: npm run chaos -- --seed ${seed} --client ${values.client} --seconds ${values.seconds}`)
process.exit(failures.length === 0 ? 0 : 1)
