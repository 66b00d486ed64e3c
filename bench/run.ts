// npm run bench [-- <part> ...]: measures, and prints the tables of docs/benchmarks.md. The parts
// are memory, redis, instructions (of Redis) and postgres (the costs of a request), service
// (requests a second), callers (bytes a caller), longest (the longest script and statement) and
// meter (instructions of a model's stream).
import { measureCallers } from './callers.js'
import { measureLongest } from './longest.js'
import { measureMemory } from './memory.js'
import { measureMeter } from './meter.js'
import { measureService } from './service.js'
import { measureInstructions, measurePostgres, measureRedis } from './shared.js'
import { tableOf, type Row } from './table.js'

const measurements: Record<string, () => Promise<Row[]>> = {
  memory: measureMemory,
  redis: measureRedis,
  instructions: measureInstructions,
  postgres: measurePostgres,
  service: measureService,
  callers: measureCallers,
  longest: measureLongest,
  meter: measureMeter
}

const chosen = process.argv.slice(2)
for (const [name, measure] of Object.entries(measurements)) {
  if (chosen.length === 0 || chosen.includes(name)) console.log(`${tableOf(await measure())}\n`)
}
