// Many handlers use `new URL(request.url, base)`, which reads the part after a scheme or two slashes as a host. These spellings reached
// the operation without being counted.
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin from '../../lib/index.js'
import { listen, sendRaw } from '../support/raw-socket.js'

const readers: readonly ((target: string) => string)[] = [
  (target) => new URL(target, 'http://host').pathname,
  (target) => new URL(decodeURIComponent(target), 'http://host').pathname
]

function isRead (target: string): boolean {
  return readers.some((read) => {
    try {
      return read(target) === '/api/analyze'
    } catch {
      return false
    }
  })
}

const targets = [
  '//any/api/analyze', '///any/api/analyze', '/\\any/api/analyze', '\\\\any/api/analyze', '/%2fany/api/analyze', '/%09/any/api/analyze', '//user@any:80/api/analyze', '//any/%61pi/analyze', '//any/api/./analyze',
  'foo://any/api/analyze', 'ws://any/api/analyze', 'file:///api/analyze', 'HTTPS://any/api/analyze'
]

const hosts: Record<string, (app: FastifyInstance, handler: (request: { url: string }) => Promise<string>) => void> = {
  'a handler of /*': (app, handler) => { app.post('/*', handler) },
  'a handler of *': (app, handler) => { app.post('*', handler) },
  'a handler of /:a/*': (app, handler) => { app.post('/:a/*', handler) },
  'a not-found handler': (app, handler) => { app.setNotFoundHandler(handler) }
}

for (const [where, declare] of Object.entries(hosts)) {
  t.test(`every spelling that ${where} reads as the operation is counted`, async (t) => {
    const open = Fastify()
    const guarded = Fastify()
    await guarded.register(quotaPlugin)
    for (const app of [open, guarded]) declare(app, async ({ url }) => isRead(url) ? 'reached' : 'elsewhere')
    t.teardown(async () => { await Promise.all([open.close(), guarded.close()]) })
    const [openPort, guardedPort] = [await listen(open), await listen(guarded)]
    let reached = 0
    for (const target of targets) {
      const request = [{ method: 'POST', target }]
      const [[openAnswer], [guardedAnswer]] = await Promise.all([sendRaw(openPort, request), sendRaw(guardedPort, request)])
      if (openAnswer?.body !== 'reached') continue
      reached += 1
      t.equal(guardedAnswer?.status, 401, target)
    }
    t.ok(reached >= 10, `${reached} spellings reached the operation`)
    for (const target of ['//any:99999/api/analyze', 'ftp://any:99999/api/analyze', '//[/api/analyze']) {
      t.not((await sendRaw(guardedPort, [{ method: 'POST', target }]))[0]?.status, 200, target)
    }
    for (const target of ['//any/api/analyzer', '//any', '/api/analyze;x', 'foo://any/api', '//[/api/other']) {
      t.not((await sendRaw(guardedPort, [{ method: 'POST', target }]))[0]?.status, 401, target)
    }
  })
}
