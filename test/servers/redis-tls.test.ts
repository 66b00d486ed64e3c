// The clients connect to a server with TLS as docs/shared-server.md says, and not if they cannot check its certificate.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { GlideClient, Logger } from '@valkey/valkey-glide'
import { Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import { createClient } from 'redis'
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { freePort, RedisServer } from '../support/redis-server.js'
import { acquireOne } from '../support/acquire-one.js'

Logger.setLoggerConfig('off')
const single = { maxRetriesPerRequest: 0, retryStrategy: () => null }

/** @param own The private certificate authority in the client's options, or nothing. */
const clients = {
  async ioredis (port: number, own?: { ca: string }) {
    const client = new Redis(`rediss://127.0.0.1:${port}`, { ...single, ...(own && { tls: own }) }).on('error', () => {})
    return { client, close: () => { client.disconnect() } }
  },
  async iovalkey (port: number, own?: { ca: string }) {
    const client = new Valkey(`rediss://127.0.0.1:${port}`, { ...single, ...(own && { tls: own }) }).on('error', () => {})
    return { client, close: () => { client.disconnect() } }
  },
  async redis (port: number, own?: { ca: string }) {
    const client = createClient({ url: `rediss://127.0.0.1:${port}`, socket: { tls: true, reconnectStrategy: false, ...own } }).on('error', () => {})
    await client.connect()
    return { client, close: () => { client.destroy() } }
  },
  async 'valkey-glide' (port: number, own?: { ca: string }) {
    const advancedConfiguration = { tlsAdvancedConfiguration: own === undefined ? {} : { rootCertificates: own.ca } }
    const client = await GlideClient.createClient({ addresses: [{ host: '127.0.0.1', port }], useTLS: true, advancedConfiguration })
    return { client, close: () => { client.close() } }
  }
}

const server = await RedisServer.start()
t.teardown(() => server.stop())
const file = (name: string) => join(server.directory, name)
const certificate = (name: string, subject: string, ...more: string[]) => execFileSync('openssl', [
  'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', `/CN=${subject}`, '-keyout', file(`${name}.key`), '-out', file(`${name}.crt`), ...more
], { stdio: 'ignore' })
certificate('authority', 'a private authority')
certificate('server', 'server', '-CA', file('authority.crt'), '-CAkey', file('authority.key'), '-addext', 'basicConstraints=critical,CA:FALSE', '-addext', 'subjectAltName=IP:127.0.0.1')
const ca = readFileSync(file('authority.crt'), 'utf8')
const port = await freePort()
const administrator = server.client()
await administrator.call('CONFIG', 'SET', 'tls-cert-file', file('server.crt'), 'tls-key-file', file('server.key'), 'tls-ca-cert-file', file('authority.crt'), 'tls-auth-clients', 'no', 'tls-port', port)
administrator.disconnect()

for (const [name, connect] of Object.entries(clients)) {
  t.test(`${name} uses TLS and checks the certificate`, async (t) => {
    const { client, close } = await connect(port, { ca })
    t.teardown(close)
    t.match(await acquireOne(new RedisQuotaStore({ client, keyPrefix: `${name}:` }), 'alice'), { admitted: true, count: 1 })
    await t.rejects(async () => {
      const unchecked = await connect(port)
      t.teardown(unchecked.close)
      await acquireOne(new RedisQuotaStore({ client: unchecked.client }), 'alice')
    })
  })
}
