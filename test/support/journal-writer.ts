// A process of its own: counts, settles, forgets and clears in a table with a journal, at random,
// until it is killed.
import pg from 'pg'
import { callerKey, localAuthentication } from '../../lib/index.js'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { demand, estimate } from './demands.js'

const [, , url = ''] = process.argv
const pool = new pg.Pool({ connectionString: url, max: 4 }).on('error', () => {})
const store = new PostgresQuotaStore({ pool, table: 'billed', journal: true })

/** Returns a random integer below the bound. */
function draw (bound: number): number {
  return Math.floor(Math.random() * bound)
}

async function writeOnce (): Promise<void> {
  const caller = String(callerKey(localAuthentication(`caller ${draw(5)}`)))
  const tokens = estimate(1 + draw(50), { limit: 1_000, reference: `request ${draw(1e6)}` })
  const { counters = '' } = tokens
  const acquired = await store.acquire([
    demand(caller, tokens),
    demand(caller, { ...tokens, counters: 'chat.tokens.hour', window: 3_600_000 })
  ])
  for (const acquisition of acquired) {
    if (acquisition?.receipt === undefined) continue
    const { granted, receipt } = acquisition
    await store.settle(receipt, { count: draw(granted + 1), held: granted }, onceOf(draw(3)))
  }
  if (draw(40) === 0) await store.forget(counters, caller)
  if (draw(400) === 0) await store.clearCounters()
}

/** Returns the text of a permit that was handed over, for a third of the settlements. */
function onceOf (drawn: number): string | undefined {
  return drawn === 0 ? 'handed over' : undefined
}

async function writeForever (): Promise<never> {
  for (;;) {
    await writeOnce().catch(() => {})
  }
}

await store.inspect('default')
process.send?.('ready')
await Promise.all(Array.from({ length: 16 }, writeForever))
