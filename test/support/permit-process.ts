// A process of its own: a service with quotas on a server. It takes, hands over, resumes and ends
// permits as its parent tells it, until it is killed.
import { subscribe } from 'node:diagnostics_channel'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import pg from 'pg'
import quotaPlugin, {
  InsuredQuotaStore,
  localAuthentication,
  quotaSettlements,
  ShardedQuotaStore,
  type QuotaPermit,
  type QuotaSettlement,
  type QuotaStore
} from '../../lib/index.js'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { required } from '../../lib/required.js'
import type { Answer, Told } from './permit-processes.js'

const [, , kind = '', url = ''] = process.argv

function onServer (number: number): QuotaStore {
  if (url.startsWith('redis:')) {
    const client = new Redis(url).on('error', () => {})
    return new RedisQuotaStore({ client, keyPrefix: `shard ${number}:` })
  }
  const pool = new pg.Pool({ connectionString: url, max: 4 }).on('error', () => {})
  return new PostgresQuotaStore({ pool })
}

const createStore: Record<string, () => QuotaStore> = {
  plain: () => onServer(0),
  sharded: () => new ShardedQuotaStore([onServer(0), onServer(1)]),
  insured: () => new InsuredQuotaStore({ primary: onServer(0), timeout: 5000 })
}

const app = Fastify()
await app.register(quotaPlugin, {
  operations: [],
  store: required(createStore[kind], 'a kind of store')(),
  quotas: {
    slots: { concurrent: 1, wait: 60_000 },
    tokens: { perMonth: { tokens: 1_000_000 }, cost: 60 },
    brief: { limit: { tokens: 1000 }, window: 1000, cost: 60 }
  }
})
await app.ready()

const permits = new Map<number, QuotaPermit>()
let settlements: QuotaSettlement[] = []
subscribe(quotaSettlements.name, (message) => {
  settlements.push(message as QuotaSettlement)
})

function permitOf (id: number): QuotaPermit {
  return required(permits.get(id), 'a permit')
}

const commands: { [Name in keyof Told]: (told: Told[Name], id: number) => Promise<unknown> } = {
  async take ({ caller, quota }, id) {
    const permit = await app.quotaAcquire(localAuthentication(caller), quota)
    permits.set(id, permit)
    return { isAdmitted: permit.refusal === null, waited: permit.decisions[0]?.waited }
  },
  handOver: ({ permit }) => permitOf(permit).handOver(),
  end: ({ permit }) => permitOf(permit).end(),
  async resume ({ text, used, isLast }) {
    const resumed = app.quotaResume(text)
    await resumed.charge(used)
    if (isLast) await resumed.end()
  },
  async standing ({ caller, quota }) {
    const standing = await app.quotaStanding(localAuthentication(caller), quota)
    return { count: standing?.count, held: standing?.held }
  },
  async settlements () {
    const published = settlements.map(({ used, before }) => ({ used, before }))
    settlements = []
    return published
  }
}

process.on('message', async ({ id, name, told }: { id: number, name: keyof Told, told: never }) => {
  const answer: Answer = { id, result: null, error: null }
  try {
    answer.result = (await commands[name](told, id)) ?? null
  } catch (error) {
    answer.error = String(error)
  }
  process.send?.(answer)
})
process.send?.('ready')
