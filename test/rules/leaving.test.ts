// docs/rules.md, "Waiting": callers who leave while they wait, over real sockets.
import { connect as connectHttp2, constants, type ClientHttp2Session } from 'node:http2'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { localAuthentication, MemoryQuotaStore, type QuotaStore } from '../../lib/index.js'
import { Gate } from '../support/gate.js'
import { matchExactly } from '../support/match-exactly.js'
import { listen } from '../support/raw-socket.js'
import { until } from '../support/until.js'
import { createWaitingServer } from '../support/waiting-server.js'

/** Leaves, so that the server sees it as the client of that protocol shows it. */
type Leave = () => void
type Send = (caller: string) => Leave

function overHttp1 (_t: Test, port: number): Send {
  return (caller) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    socket.resume()
    socket.write(
      `POST /run HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nx-caller: ${caller}\r\n\r\n`
    )
    return () => {
      socket.destroy()
    }
  }
}

function openSession (t: Test, port: number): ClientHttp2Session {
  const session = connectHttp2(`http://127.0.0.1:${port}`).on('error', () => {})
  t.teardown(() => {
    session.destroy()
  })
  return session
}

const post = (session: ClientHttp2Session, caller: string) =>
  session
    .request({ ':method': 'POST', ':path': '/run', 'x-caller': caller }, { endStream: true })
    .on('error', () => {})
    .resume()

/** All requests are streams of one session, and whoever leaves cancels its own. */
function overHttp2 (t: Test, port: number): Send {
  const session = openSession(t, port)
  return (caller) => {
    const stream = post(session, caller)
    return () => {
      stream.close(constants.NGHTTP2_CANCEL)
    }
  }
}

/** Each request is one of a session of its own, which breaks. */
function overOwnSessions (t: Test, port: number): Send {
  return (caller) => {
    const session = openSession(t, port)
    post(session, caller)
    return () => {
      session.destroy()
    }
  }
}

const protocols: [name: string, isHttp2: boolean, open: (t: Test, port: number) => Send][] = [
  ['HTTP/1', false, overHttp1],
  ['HTTP/2', true, overHttp2],
  ['sessions of HTTP/2 that break', true, overOwnSessions]
]

async function startHost (t: Test, isHttp2: boolean) {
  const gate = new Gate()
  const slots = {
    concurrent: 1,
    authentication: () => localAuthentication('service'),
    wait: 60_000
  }
  const fastify = { http2: isHttp2, forceCloseConnections: true } as object
  const host = await createWaitingServer(t, { slots }, { fastify, wrap: gate.wrap })
  const port = await listen(host.app)
  t.teardown(() => host.app.close())
  return { ...host, gate, port }
}

for (const [protocol, isHttp2, open] of protocols) {
  // Of three who wait, each leaves in turn.
  for (const leaving of ['first', 'second', 'third']) {
    t.test(`the ${leaving} of a line leaves and counts nothing, over ${protocol}`, async (t) => {
      const host = await startHost(t, isHttp2)
      const send = open(t, host.port)
      send('running')
      await until('a request runs', () => host.running.length === 1)
      const leave = new Map<string, Leave>()
      for (const caller of ['first', 'second', 'third']) {
        leave.set(caller, send(caller))
        await until('it waits', () => host.waiting() === leave.size)
      }
      leave.get(leaving)?.()
      await until('it has left', () => host.waiting() === 2)
      const stay = ['first', 'second', 'third'].filter((caller) => caller !== leaving)
      for (let served = 1; served <= 2; served++) {
        host.running.at(-1)?.finish()
        await until('the next one runs', () => host.running.length > served)
      }
      t.same(host.running.map(({ caller }) => caller), ['running', ...stay])
      t.same(host.decisions.map(({ outcome }) => outcome), ['admitted', 'admitted', 'admitted'])
      host.running.at(-1)?.finish()
      await until('no place is taken', async () => await placesOf(host) === 0)
    })
  }

  t.test(`who leaves while it asks gives its place back, over ${protocol}`, async (t) => {
    const host = await startHost(t, isHttp2)
    const send = open(t, host.port)
    send('running')
    await until('a request runs', () => host.running.length === 1)
    const leave = send('leaving')
    await until('it waits', () => host.waiting() === 1)
    send('staying')
    await until('another one waits', () => host.waiting() === 2)
    host.gate.close()
    host.running[0]?.finish()
    await until('the first one asks', () => host.gate.asking === 1)
    leave()
    await until('it has left', () => host.waiting() === 1)
    host.gate.open()
    await until('the other one runs', () => host.running.length === 2)
    t.equal(host.running[1]?.caller, 'staying')
    t.equal(host.decisions.length, 2, 'none is published for who has left')
    host.running[1]?.finish()
    await until('no place is taken', async () => await placesOf(host) === 0)
  })

  t.test(`who leaves before it would wait does not wait, over ${protocol}`, async (t) => {
    const host = await startHost(t, isHttp2)
    const send = open(t, host.port)
    send('running')
    await until('a request runs', () => host.running.length === 1)
    let closed = 0
    host.app.server.on('connection', (socket) => socket.on('close', () => (closed += 1)))
    host.app.server.on('stream', (stream) => stream.on('close', () => (closed += 1)))
    host.gate.close()
    const leave = send('leaving')
    await until('it asks', () => host.gate.asking === 1)
    leave()
    await until('it has left', () => closed > 0)
    host.gate.open()
    await until('it does not wait', () => host.seconds.length === 1 && host.waiting() === 0)
    t.equal(host.decisions.length, 1, 'none is published for who has left')
    host.running[0]?.finish()
    await until('no place is taken', async () => await placesOf(host) === 0)
    t.equal(host.running.length, 1)
  })
}

async function placesOf ({ app }: Awaited<ReturnType<typeof startHost>>): Promise<unknown> {
  return (await app.quotaStanding(localAuthentication('service'), 'slots'))?.count
}

for (const isLeft of [false, true]) {
  t.test(
    `a wait ends whose store cannot be used any more${isLeft ? ', also of who left' : ''}`,
    async (t) => {
      const left = new AbortController()
      let isBroken = false
      const memory = new MemoryQuotaStore()
      const broken: QuotaStore = {
        acquire: (demands) => memory.acquire(demands),
        get settle (): NonNullable<QuotaStore['settle']> {
          if (isBroken && isLeft) left.abort()
          if (isBroken) throw new Error('the store is broken')
          return (...given) => memory.settle(...given)
        }
      }
      const quotas = { places: { concurrent: 1, wait: 1000 }, calls: { perDay: 9, store: broken } }
      const { app, log, waiting } = await createWaitingServer(t, quotas)
      const names = Object.keys(quotas)
      const alice = localAuthentication('alice')
      const first = await app.quotaAcquire(alice, names)
      const second = app.quotaAcquire(alice, names, { signal: left.signal })
      await until('the second one waits', () => waiting() === 1)
      isBroken = true
      const ended = second.then(
        ({ refusal }) => refusal?.reason,
        (error: unknown) => error
      )
      await first.end()
      t.equal(await ended, isLeft ? left.signal.reason : 'store')
      t.equal(waiting(), 0)
      const failures = isLeft ? [] : [{ err: { message: 'the store is broken' } }]
      matchExactly(t, log.failures(), failures)
    }
  )
}
