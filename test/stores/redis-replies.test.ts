// What the Redis store sends to a host's client, and what it makes of replies and errors. A host's
// own client could return anything.
import { readdirSync, readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore, type SupportedRedisClient } from '../../lib/redis.js'
import { Keys } from '../../lib/store/redis/keys.js'
import { RedisDriver } from '../../lib/store/redis/redis-driver.js'
import { NotRunError, TryAgainError } from '../../lib/store/shared/driver.js'
import { acquireOne, demand, place } from '../support/demands.js'
import { callOf, send } from '../support/driver-checks.js'
import { matchExactly } from '../support/match-exactly.js'
import { VirtualTime } from '../support/time.js'
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
    const calls = [...source.matchAll(/\bcall\('([A-Z]+)'/g)].map(([, command]) => command)
    // decide.lua builds these from a table.
    const built = ['HSET', 'ZADD', 'ZREM']
    t.ok(built.every((command) => source.includes(`{ '${command}'`)))
    const used = [...new Set([...calls, ...built])].sort()
    t.same(used, [
      'EXISTS',
      'GET',
      'HDEL',
      'HEXISTS',
      'HLEN',
      'HMGET',
      'HRANDFIELD',
      'HSCAN',
      'HSET',
      'PEXPIRE',
      'PTTL',
      'SCAN',
      'SET',
      'TIME',
      'UNLINK',
      'ZADD',
      'ZCARD',
      'ZCOUNT',
      'ZMSCORE',
      'ZRANGEBYSCORE',
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
    client: { evaluateDigest: async () => reply, evaluateSource: async () => reply }
  })

const calls: Record<string, (store: RedisQuotaStore) => Promise<unknown>> = {
  acquire: async (store) => store.acquire([demand('alice')]),
  peek: (store) => store.peek(demand('alice')),
  inspect: (store) => store.inspect('default'),
  'peek of a place': (store) => store.peek(demand('alice', place())),
  list: (store) => store.list('default')
}
const unreadable = [
  null,
  5,
  '',
  [],
  ['1000 1 7 1 0 60000 0'],
  '1000',
  'x 2 3 4',
  '1000 2.5 3 0 60000 0',
  '1000  3 0 60000 0',
  '1000 3 0 60000 2'
]
const tooLarge = 2 ** 53
// The period, and what was decided on a demand: what was granted, a window, and its count.
const decided = '1000 1 7 1 0 60000 0'
// The period, and a count.
const standing = '1000 5 3 59000 0'
const invalid: Record<string, unknown[]> = {
  acquire: [
    ...unreadable,
    '1000 1 7 1 0 60000',
    `${decided} 0`,
    '1000 -2 7 1 0 60000 0',
    '1000 1 7 -1 0 60000 0',
    '1000 1 7 1 0 60000 2',
    `1000 1 7 ${tooLarge} 0 60000 0`
  ],
  peek: [
    ...unreadable,
    `1000 ${tooLarge} 3 59000 0`,
    `${standing} 0`
  ],
  inspect: [
    null,
    '1',
    [],
    ['0'],
    ['x', '1'],
    [null, '1'],
    ['0', 1],
    ['0', ''],
    ['0', 'x'],
    ['0', '-1'],
    ['0', '1', '2']
  ],
  'peek of a place': [...unreadable, '1000 1 1 0'],
  list: [
    null,
    'OK',
    [],
    ['x'],
    ['-1'],
    ['1x'],
    [null],
    ['0', 'alice'],
    ['0', 'alice', '1', '0', '60000'],
    ['0', 'alice', 1, 0, 60_000, 0],
    ['0', 'alice', 'x', '0', '60000', '0'],
    ['0', 'alice', '1', '0', '60000', '0', '0'],
    ['0', 'alice', '1', '0', '60000', '0', 'bob']
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
      return ['0', 'alice', '3', '2', '60000', '0']
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
      'An error was signalled by the server: - TryAgain: Multiple keys request'
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
      'Too many Cluster redirections. Last error: ReplyError: MOVED 1 127.0.0.1:6379',
      'ASK 1 127.0.0.1:6379',
      'MASTERDOWN Link with MASTER is down',
      'NOREPLICAS Not enough good replicas to write.',
      'MISCONF Redis is configured to save RDB snapshots, but is unable to persist to disk.',
      'BUSY Redis is busy running a script.'
    ]
  },
  'a call may have run after any other error': {
    error: null,
    replies: [
      "NOPERM this user has no permissions to run the 'hset' command",
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
      const driver = new RedisDriver(client, new Keys('llm-quota:'), Infinity)
      const requests = [{ demands: [demand('alice')], place: '' }]
      const rejected = await send(driver, callOf({ requests })).catch((error: unknown) => error)
      if (expected === null) t.equal(rejected, error)
      else t.match(rejected, { constructor: expected, cause: error }, reply)
      const others = [
        driver.forget('default', 'alice'),
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

t.test('a text is accepted as a string and as a Buffer', async (t) => {
  for (const form of [String, Buffer.from]) {
    const store = (reply: string) => storeThatReads(form(reply))
    const acquired = (reply: string) => acquireOne(store(reply), 'alice')
    matchExactly(t, await acquired(`1000 3 ${2 ** 51} 5 4 59999 1`), {
      admitted: true,
      granted: 3,
      count: 5,
      held: 4,
      windowRemaining: 59_999,
      overflow: true
    })
    matchExactly(t, await acquired('1000 -1 7 4 0 1 0'), {
      admitted: false,
      granted: 0,
      count: 4,
      held: 0,
      windowRemaining: 1,
      overflow: false
    })
    t.equal(await store('1000 -1').peek(demand('alice')), null)
    t.match(await store(standing).peek(demand('alice')), { count: 5, held: 3 })
    const lists = storeThatReads(['0', 'alice', '3', '2', '60000', '0'].map((text) => form(text)))
    t.match(await lists.list('default'), { callers: [{ callerKey: 'alice', count: 3 }] })
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

/** Keeps the process alive, as a connection does: what the store waits with does not. */
function keepAlive (t: Test): void {
  const connection = setInterval(() => {}, 1_000)
  t.teardown(() => {
    clearInterval(connection)
  })
}

t.test('a script is sent again while the keys of its slot are on two servers', async (t) => {
  keepAlive(t)
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
  keepAlive(t)
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

t.test('a sentinel, whose sendCommand takes other arguments, is not told to leave', async (t) => {
  let sent = 0
  const readOnly = async () => {
    throw new Error("READONLY You can't write against a read only replica.")
  }
  const sentinel = {
    isReady: true,
    evalSha: readOnly,
    eval: readOnly,
    getMasterNode () {},
    async sendCommand (_isReadonly: boolean, _command: string[]) {
      sent += 1
    }
  }
  const store = new RedisQuotaStore({ client: sentinel })
  await t.rejects(acquireOne(store, 'alice'))
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
  t.equal(sent, 0)
})

type Run = () => Promise<unknown>

interface ClientStates {
  readonly create: (run: Run) => SupportedRedisClient
  readonly connecting: readonly object[]
  readonly ready: object
  /** Other states in which the client sends a command: it connects first, or has no states. */
  readonly sending: readonly object[]
  readonly closed: object
}

const clientStates: Record<string, ClientStates> = {
  ioredis: {
    create: (run) => ({ evalsha: run, eval: run }),
    connecting: ['connecting', 'connect', 'close', 'reconnecting'].map((status) => ({ status })),
    ready: { status: 'ready' },
    sending: [{ status: 'wait' }, {}],
    closed: { status: 'end' }
  },
  redis: {
    create: (run) => ({ evalSha: run, eval: run }),
    connecting: [{ isOpen: true, isReady: false }, { isReady: false }],
    ready: { isOpen: true, isReady: true },
    sending: [{ isReady: true }, {}],
    closed: { isOpen: false, isReady: false }
  },
  'a client of the host': {
    create: (run) => ({ evaluateDigest: run, evaluateSource: run }),
    connecting: [{ readiness: () => 'connecting' }],
    ready: { readiness: () => 'ready' },
    sending: [{}],
    closed: { readiness: () => 'closed' }
  }
}

/** What the timers send arrives in a few turns of the event loop. */
async function turns (): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
}

/** A store whose client has a state that a test sets, and how its requests have ended. */
function storeOnClient (create: ClientStates['create'], state: object) {
  const ended: string[] = []
  const found = { sent: 0, ended }
  const client = create(async () => {
    found.sent += 1
    return decided
  })
  const setState = (state: object) => Object.assign(client, state)
  setState(state)
  const store = new RedisQuotaStore({ client })
  const ask = async () => {
    acquireOne(store, 'alice').then(
      ({ admitted }) => ended.push(admitted ? 'admitted' : 'rejected'),
      ({ message }) => ended.push(message)
    )
    await turns()
  }
  return { found, ask, setState }
}

t.test(
  'while a Redis client connects, requests wait for it, and with one that is closed they ' +
    'fail at once',
  async (t) => {
    const time = new VirtualTime()
    time.start()
    t.teardown(() => {
      time.stop()
    })
    const pass = async (ms: number) => {
      for (let left = ms; left > 0; left -= 50) {
        time.advance(50)
        await turns()
      }
    }
    for (const [name, states] of Object.entries(clientStates)) {
      const { create, connecting, ready, sending, closed } = states
      for (const state of connecting) {
        const { found, ask, setState } = storeOnClient(create, state)
        await ask()
        await pass(2_450)
        t.same(found, { sent: 0, ended: [] }, `${name}: ${JSON.stringify(state)}`)
        await pass(50)
        t.same(found, { sent: 0, ended: ['the Redis client is not connected'] })
        await ask()
        await pass(1_000)
        setState(ready)
        await pass(50)
        t.same(found, { sent: 1, ended: ['the Redis client is not connected', 'admitted'] })
      }
      for (const state of [ready, ...sending]) {
        const { found, ask } = storeOnClient(create, state)
        await ask()
        t.same(found, { sent: 1, ended: ['admitted'] }, `${name}: ${JSON.stringify(state)}`)
      }
      const { found, ask } = storeOnClient(create, closed)
      await ask()
      t.same(found, { sent: 0, ended: ['the Redis client is closed'] }, name)
    }
  }
)

t.test('all idle connections of a pool leave a replica', async (t) => {
  keepAlive(t)
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
