import { mkdirSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import type { Fault } from './incident.js'
import type { Random } from './random.js'
import { dataFile, type RedisNode } from './redis-node.js'
import { credentials } from './stores.js'

const briefly = (random: Random): number => random.integer(50, 1_500)

// A kilobyte for each, of somebody else, that does not expire.
const others = Array.from({ length: 500 }, (_, number) => `other data ${number}`)
const fill = (node: RedisNode): Promise<unknown> =>
  node.administer('MSET', ...others.flatMap((name) => [name, 'x'.repeat(1_024)]))

/** Faults of a Redis server. */
export const redisFaults: Readonly<Record<string, Fault<RedisNode>>> = {
  kill: ({ server }, random) => ({
    description: 'is killed, and started empty',
    lasts: random.integer(50, 2_000),
    begin: () => server.kill(),
    end: () => server.start().then(() => 1)
  }),
  load (node, random) {
    const lasts = random.integer(200, 2_000)
    let started: Promise<void> | undefined
    return {
      description: 'saves its data, ends, starts again, and loads the data',
      lasts,
      async begin () {
        await fill(node)
        await node.administer('CONFIG', 'SET', 'rdbcompression', 'no')
        await node.administer('SHUTDOWN', 'SAVE').catch(() => {})
        await node.server.kill()
        const delay = String(Math.ceil((1_000 * lasts) / others.length))
        started = node.server.start(
          '--key-load-delay',
          delay,
          '--loading-process-events-interval-bytes',
          '1024'
        )
      },
      async end () {
        await started
        rmSync(dataFile(node.server))
        await node.administer('DEL', ...others)
      }
    }
  },
  freeze: ({ server }, random) => ({
    description: 'is frozen',
    lasts: random.integer(50, 2_500),
    begin: () => {
      server.signal('SIGSTOP')
    },
    end: async () => {
      server.signal('SIGCONT')
    }
  }),
  failOver (node, random) {
    const isPlanned = random.pick([true, false])
    return {
      description: isPlanned
        ? 'is replaced by its replica, and becomes the replica of it, with all connections'
        : 'is killed, and replaced by its replica',
      lasts: random.integer(100, 1_500),
      begin: () => node.failOver(isPlanned),
      // The replica can lag behind.
      end: async () => 1
    }
  },
  demote: (node, random) => ({
    description: 'is a replica',
    lasts: briefly(random),
    begin: () => node.administer('REPLICAOF', '127.0.0.1', '1'),
    end: () => node.administer('REPLICAOF', 'NO', 'ONE').then(() => {})
  }),
  scriptFlush: (node) => ({
    description: 'SCRIPT FLUSH',
    lasts: 100,
    begin: () => node.administer('SCRIPT', 'FLUSH')
  }),
  evict: evicting(
    'is full and evicts keys',
    ['allkeys-random', 'allkeys-lru', 'volatile-ttl'],
    async () => 1
  ),
  evictAmongOthers: evicting(
    'is full of other data and evicts keys',
    ['allkeys-lru', 'volatile-lru', 'volatile-ttl'],
    async (node) => {
      await fill(node)
      return (await node.figure('used_memory')) - 50_000
    }
  ),
  full: configured('is full and evicts nothing', 'maxmemory', '1', '0'),
  noReplicas: configured(
    'takes no writes, because it has no replicas',
    'min-replicas-to-write',
    '1',
    '0'
  ),
  cannotSave: (node, random) => ({
    description: 'takes no writes, because it cannot save',
    lasts: briefly(random),
    async begin () {
      mkdirSync(dataFile(node.server))
      await node.administer('CONFIG', 'SET', 'save', '3600 1')
      await node.administer('BGSAVE')
      while (
        !String(await node.administer('INFO', 'persistence')).includes('rdb_last_bgsave_status:err')
      ) {
        await sleep(5)
      }
    },
    async end () {
      await node.administer('CONFIG', 'SET', 'save', '')
      rmSync(dataFile(node.server), { recursive: true })
    }
  }),
  maxClients ({ server, proxies }, random) {
    let administrator: Redis | undefined
    return {
      description: 'connections are reset, and no other is accepted, because there are too many',
      lasts: briefly(random),
      async begin () {
        administrator = server.client()
        await administrator.config('SET', 'maxclients', 1)
        for (const proxy of proxies) proxy.reset()
      },
      async end () {
        await administrator?.config('SET', 'maxclients', 10_000)
        administrator?.disconnect()
      }
    }
  },
  password (node, random) {
    const setPassword = (password: string): Promise<unknown> => {
      return node.administer('ACL', 'SETUSER', credentials.username, 'resetpass', `>${password}`)
    }
    return {
      description: 'connections are reset, and the password of the instances is wrong',
      lasts: briefly(random),
      async begin () {
        await setPassword('another')
        for (const proxy of node.proxies) proxy.reset()
      },
      end: () => setPassword(credentials.password).then(() => {})
    }
  },
  busy: (node, random) => ({
    description: 'is busy with a script of somebody else',
    lasts: briefly(random),
    async begin () {
      await node.administer('CONFIG', 'SET', 'lua-time-limit', '20')
      // The command fails because the script is killed.
      node.administer('EVAL', 'while true do end', '0').catch(() => {})
    },
    end: () => node.administer('SCRIPT', 'KILL').then(() => {})
  })
}

function configured (
  description: string,
  name: string,
  bad: string,
  good: string
): Fault<RedisNode> {
  return (node, random) => ({
    description,
    lasts: briefly(random),
    begin: () => node.administer('CONFIG', 'SET', name, bad),
    end: () => node.administer('CONFIG', 'SET', name, good).then(() => {})
  })
}

/** @param prepare Returns the most memory that the server may use. */
function evicting (
  description: string,
  policies: readonly string[],
  prepare: (node: RedisNode) => Promise<number>
): Fault<RedisNode> {
  return (node, random) => {
    const policy = random.pick(policies)
    let before = 0
    return {
      description: `${description} (${policy})`,
      lasts: briefly(random),
      async begin () {
        before = await node.figure('evicted_keys')
        await node.administer('CONFIG', 'SET', 'maxmemory-policy', policy)
        await node.administer('CONFIG', 'SET', 'maxmemory', String(await prepare(node)))
      },
      async end () {
        await node.administer('CONFIG', 'SET', 'maxmemory', '0')
        await node.administer('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
        await node.administer('DEL', ...others)
        return (await node.figure('evicted_keys')) - before
      }
    }
  }
}
