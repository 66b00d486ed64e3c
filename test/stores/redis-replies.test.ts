// What the Redis store sends to a host's client, and what it makes of replies and errors. A host's
// own client could return anything.
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { RedisDriver } from '../../lib/store/redis/redis-driver.js'
import { NotRunError, TryAgainError } from '../../lib/store/shared/driver.js'
import { matchExactly } from '../support/match-exactly.js'
import { acquireOne, demand, estimate, place } from '../support/told-store.js'
import { virtualPerformance } from '../support/virtual-performance.js'
import { until } from '../support/until.js'

t.test(
  'the scripts use what the oldest server, Redis 6.2, has, and docs/shared-server.md lists ' +
    'it as permissions',
  async (t) => {
    const folder = 'lib/store/redis'
    const source = readdirSync(folder)
      .filter((name) => name.endsWith('.lua'))
      .map((name) => readFileSync(`${folder}/${name}`, 'utf8'))
      .join()
    const calls = [...source.matchAll(/redis\.p?call\('([A-Z]+)'/g)].map(([, command]) => command)
    const used = [...new Set(calls)].sort()
    t.same(used, [
      'EXISTS',
      'HDEL',
      'HGET',
      'HKEYS',
      'HLEN',
      'HMGET',
      'HSCAN',
      'HSET',
      'PEXPIRE',
      'TIME',
      'TYPE',
      'UNLINK',
      'ZADD',
      'ZCARD',
      'ZCOUNT',
      'ZRANGE',
      'ZREM',
      'ZREMRANGEBYRANK',
      'ZSCAN'
    ])
    const [, permissions = ''] =
      /ACL SETUSER quota .*? -@all (.*)/.exec(readFileSync('docs/shared-server.md', 'utf8')) ?? []
    const needed = ['EVAL', 'EVALSHA', ...used].map(
      (command) => `+${String(command).toLowerCase()}`
    )
    t.same(permissions.split(' ').sort(), needed.sort())
  }
)

const storeThatReads = (reply: unknown) =>
  new RedisQuotaStore({
    shards: 2,
    client: { evaluateDigest: async () => reply, evaluateSource: async () => reply }
  })

const calls: Record<string, (store: RedisQuotaStore) => Promise<unknown>> = {
  acquire: async (store) => store.acquire([demand('of shard 0'), demand('of shard 1', estimate())]),
  peek: (store) => store.peek(demand('alice')),
  inspect: (store) => store.inspect('default'),
  'peek of a place': (store) => store.peek(demand('alice', place())),
  list: (store) => store.list('default')
}
const unreadable = [null, 5, ['1 2 3 4'], 'OK', '1', 'x 2 3 4', '1 2.5 3 0', '1  3 0', '-1 2 3 0']
const tooLarge = String(2 ** 53)
// The period, and what was decided on a demand.
const decided = '1000 1 1 0 60000 7 0'
const invalid: Record<string, unknown[]> = {
  acquire: [
    ...unreadable,
    '',
    '1000',
    '1000 1 1 0 60000 7',
    `${decided} 0`,
    '1000 -2 1 0 60000 7 0',
    '1000 1 1 0 60000 7 2',
    `1000 1 ${tooLarge} 0 60000 7 0`
  ],
  peek: [...unreadable, '1 2 3 2', `${tooLarge} 2 3 0`],
  inspect: [...unreadable, '', '1 2 3'],
  'peek of a place': [null, 5, '', 'x', '1 2'],
  list: [
    null,
    'OK',
    [],
    ['x'],
    ['-1'],
    ['1x'],
    [null],
    ['0', 'alice'],
    ['0', 'alice', '1 0 60000'],
    ['0', 'alice', 'x 0 60000 0'],
    ['0', 'alice', '1 0 60000 0 0'],
    ['0', 'alice', '1 0 60000 0', 'bob']
  ]
}

for (const [name, replies] of Object.entries(invalid)) {
  t.test(`${name} rejects a reply that it cannot read`, async (t) => {
    for (const reply of replies) {
      const failure = { name: 'TypeError', message: /unexpected reply of the server/ }
      await t.rejects(
        async () => calls[name]?.(storeThatReads(reply)),
        failure,
        JSON.stringify(reply)
      )
    }
    await t.rejects(
      storeThatReads([]).list('default', '2'),
      { name: 'TypeError', message: /there is no shard 2/ },
      'nor a cursor of another store'
    )
  })
}

t.test('the time of a call is that of the server, or of the clock of the store', async (t) => {
  for (const [options, time] of [
    [{}, '-1'],
    [{ clock: () => 5.7 }, '5']
  ] as const) {
    const sent: unknown[] = []
    const evaluateSource = async (
      _script: string,
      _keys: readonly string[],
      [_cursor, time]: readonly (string | Buffer)[]
    ) => {
      sent.push(time)
      return ['0', 'alice', '3 2 60000 0']
    }
    const client = { evaluateSource, evaluateDigest: async () => null }
    t.same(await new RedisQuotaStore({ client, ...options }).list('default'), {
      callers: [{ callerKey: 'alice', count: 3, held: 2, windowRemaining: 60_000 }],
      cursor: null
    })
    t.same(sent, [time])
  }
})

t.test(
  'a store on a server has its caller cap as a property, for the fallback of an insured ' +
    'store and the metrics',
  async (t) => {
    const client = { evaluateDigest: async () => null, evaluateSource: async () => null }
    const pool = { query: async () => ({ rows: [] }) }
    t.same(
      [
        new RedisQuotaStore({ client, maxTrackedCallers: 3 }),
        new PostgresQuotaStore({ pool, maxTrackedCallers: 3 })
      ].map((store) => store.maxTrackedCallers),
      [3, 3]
    )
  }
)

const errorReplies: Record<
  string,
  { replies: readonly string[]; error: typeof NotRunError | null }
> = {
  'a call that a server refuses while a slot moves is sent again': {
    error: TryAgainError,
    replies: [
      'TRYAGAIN Multiple keys request during rehashing of slot',
      'An error was signalled by the server: - TryAgain: Multiple keys request',
      'ERR Script attempted to access a non local key in a cluster node script: f_0'
    ]
  },
  'a call has not run if the server has refused the script or its first write': {
    error: NotRunError,
    replies: [
      "READONLY You can't write against a read only replica.",
      'An error was signalled by the server: - ReadOnly: a replica',
      'LOADING Redis is loading the dataset in memory',
      'BusyLoadingError: Redis is loading the dataset in memory',
      "OOM command not allowed when used memory > 'maxmemory'.",
      'ERR Error running script (call to f_0): @user_script:36: -OOM command not allowed',
      'CLUSTERDOWN The cluster is down',
      'ERR Script attempted to execute a write command while the cluster is down and readonly',
      'Too many Cluster redirections. Last error: ReplyError: MOVED 1 127.0.0.1:6379',
      'ASK 1 127.0.0.1:6379',
      'MASTERDOWN Link with MASTER is down',
      'NOREPLICAS Not enough good replicas to write.',
      'MISCONF Redis is configured to save RDB snapshots, but is unable to persist to disk.',
      'BUSY Redis is busy running a script.',
      'ERR user_script:20: VERSION llm-quota:{0} has the layout of another version of this store'
    ]
  },
  'a call may have run after any other error': {
    error: null,
    replies: [
      "NOPERM this user has no permissions to run the 'zadd' command",
      'Connection is closed.',
      'BUSYKEY Target key name already exists.'
    ]
  }
}

for (const [name, { replies, error: expected }] of Object.entries(errorReplies)) {
  t.test(name, async (t) => {
    for (const reply of replies) {
      const error = new Error(reply)
      const refuse = async () => await Promise.reject(error)
      const client = { evaluateDigest: refuse, evaluateSource: refuse }
      const driver = new RedisDriver(client, 'llm-quota:{0}', 10)
      const asked = demand('alice')
      const requests = [{ demands: [asked], place: '' }]
      const call = { time: null, freed: [], renewed: [], settlements: [], requests }
      const rejected = await driver.decide(call).catch((error: unknown) => error)
      if (expected === null) t.equal(rejected, error)
      else t.match(rejected, { constructor: expected, cause: error }, reply)
      const others = [
        driver.peek(asked, null),
        driver.peek(demand('alice', place()), null),
        driver.forget('alice', 'default'),
        driver.list('default', null, null, 0),
        driver.inspect('default', null),
        driver.clear()
      ]
      const reasons = (await Promise.allSettled(others)).map((each) =>
        each.status === 'rejected' ? each.reason : each
      )
      t.ok(
        reasons.every((reason) => reason === error),
        'all but a decision reject with what the client has thrown'
      )
    }
  })
}

t.test('a request that waits for 2.5 s to be sent is rejected', async (t) => {
  const clock = virtualPerformance(t)
  const full = async () => {
    clock.advance(2_501)
    return ['1000', ...Array(128).fill('1 1 0 60000 7 0')].join(' ')
  }
  const store = new RedisQuotaStore({ client: { evaluateDigest: full, evaluateSource: full } })
  const settled = await Promise.allSettled(
    Array.from({ length: 129 }, () => acquireOne(store, 'alice'))
  )
  matchExactly(t, settled.slice(-2), [
    { value: { admitted: true } },
    { reason: { message: 'no response within 2500 ms' } }
  ])
})

t.test('a text is accepted in every form that clients return', async (t) => {
  for (const form of [String, Buffer.from]) {
    const acquired = (reply: string) => acquireOne(storeThatReads(form(reply)), 'alice')
    matchExactly(t, await acquired(`1000 3 5 4 59999 ${2 ** 51} 1`), {
      admitted: true,
      granted: 3,
      count: 5,
      held: 4,
      windowRemaining: 59_999,
      overflow: true
    })
    matchExactly(t, await acquired('1000 -1 4 0 1 7 0'), {
      admitted: false,
      granted: 0,
      count: 4,
      held: 0,
      windowRemaining: 1,
      overflow: false
    })
    t.equal(await storeThatReads(form('')).peek(demand('alice')), null)
  }
})

/** An error of Valkey GLIDE, whose name is that of its class. */
const glideError = (name: string, message = 'a sentence made for people') =>
  Object.assign(new Error(message), { name })

const unknownScript = 'An error was signalled by the server: - NoScriptError: No matching script.'
const names = [
  'RequestError',
  'TimeoutError',
  'ConnectionError',
  'ExecAbortError',
  'ClosingError',
  'Error'
]
const errors: [unknown, isSentAgain: boolean][] = [
  [glideError('RequestError', unknownScript), true],
  ...names.map((name): [unknown, boolean] => [glideError(name), false]),
  ['RequestError', false]
]

t.test(
  'a script is sent as source if the server does not know it, and not again after another ' +
    'error: it may have run',
  async (t) => {
    for (const [error, isSentAgain] of errors) {
      const commands: string[] = []
      const client = {
        async customCommand ([command = '']: string[]) {
          commands.push(command)
          if (command === 'EVALSHA') throw error
          return decided
        }
      }
      const store = new RedisQuotaStore({ client })
      await acquireOne(store, 'alice')
      if (isSentAgain) t.match(await acquireOne(store, 'alice'), { admitted: true })
      else await t.rejects(acquireOne(store, 'alice'), String(error))
      t.same(commands, ['EVAL', 'EVALSHA', ...(isSentAgain ? ['EVAL'] : [])])
    }
  }
)

t.test('a script is sent again while the keys of its slot are on two servers', async (t) => {
  const moving = [
    new Error('TRYAGAIN Multiple keys request during rehashing of slot'),
    glideError('RequestError', 'An error was signalled by the server: - TryAgain: Multiple keys')
  ]
  for (const error of moving) {
    let sent = 0
    const evaluate = async () => {
      sent += 1
      if (sent < 3) throw error
      return decided
    }
    const store = new RedisQuotaStore({
      client: { evaluateDigest: evaluate, evaluateSource: evaluate }
    })
    t.match(await acquireOne(store, 'alice'), { admitted: true })
    t.equal(sent, 3)
  }
})

t.test('a client of redis 3, which returns no promises, is an error at the start', async (t) => {
  const command = () => true
  const client = { evalsha: command, eval: command, batch: command, pipeline: false }
  t.throws(() => Reflect.construct(RedisQuotaStore, [{ client }]), {
    code: 'FST_ERR_LLM_QUOTA_OPTION',
    message: /option client must not be a client of redis 3 or earlier/
  })
})

t.test('a replica is left at most once a second', async (t) => {
  const quits: string[] = []
  const quit = async ([command = '']: string[]) => {
    if (command === 'QUIT') quits.push(command)
  }
  const readOnly = async () => {
    throw new Error("READONLY You can't write against a read only replica.")
  }
  const glide = (message: string) => ({
    customCommand: async (command: string[]) =>
      quit(command).then(() => {
        throw glideError('RequestError', message)
      })
  })
  const pool = { idleClients: 1, evalSha: taken, eval: taken, sendCommand: quit }
  async function taken (): Promise<void> {
    pool.idleClients -= 1
    setImmediate(() => {
      pool.idleClients += 1
    })
    await readOnly()
  }
  const clients = {
    redis: { isReady: true, evalSha: readOnly, eval: readOnly, sendCommand: quit },
    'redis, pool of one': pool,
    'valkey-glide': glide(
      "An error was signalled by the server: - ReadOnly: You can't write against a read " +
        'only replica.'
    ),
    'valkey-glide with Redis 6.2': glide(
      'ResponseError: Error running script (call to f_0): @user_script:1: -READONLY You ' +
        "can't write against a read only replica."
    )
  }
  for (const [name, client] of Object.entries(clients)) {
    const store = new RedisQuotaStore({ client })
    for (let request = 0; request < 5; request++) await t.rejects(acquireOne(store, 'alice'))
    await until('the client is told to leave', () => quits.length > 0)
    t.equal(quits.splice(0).length, 1, name)
  }
})

t.test('all idle connections of a pool leave a replica', async (t) => {
  let left = 0
  const evalSha = async () => {
    throw new Error("READONLY You can't write against a read only replica.")
  }
  const sendCommand = async () => {
    left += 1
  }
  const store = new RedisQuotaStore({
    client: Object.assign({ idleClients: 3, sendCommand }, { evalSha, eval: evalSha })
  })
  await t.rejects(acquireOne(store, 'alice'))
  await until('the pool is told to leave', () => left > 0)
  t.equal(left, 3)
})
