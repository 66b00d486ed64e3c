// npm run bench [-- memory] [-- redis] [-- postgres]: prints the rows of the table in
// docs/benchmarks.md.
import { limiters } from './limiters.js'
import { measureMemory } from './memory.js'
import { measurePostgres, measureRedis } from './shared.js'
import { tableOf, type Row } from './table.js'

const measurements: Record<string, () => Promise<Row[]>> = {
  memory: measureMemory,
  redis: measureRedis,
  postgres: measurePostgres
}

const chosen = process.argv.slice(2)
const rows: Row[] = []
for (const [name, measure] of Object.entries(measurements)) {
  if (chosen.length === 0 || chosen.includes(name)) rows.push(...(await measure()))
}
console.log(tableOf(rows, Object.keys(limiters)))
