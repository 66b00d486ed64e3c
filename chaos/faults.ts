import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { credentials } from './clients.js'
import type { Random } from './random.js'
import type { World } from './world.js'

/** A fault with its random parameters. */
export interface Incident {
  readonly description: string
  /** The duration in milliseconds. */
  readonly lasts: number
  /** How long instances are stopped, in milliseconds. */
  readonly stalls?: number
  begin (world: World): Promise<unknown>
  /** How often the server can have lost a caller's count. Undefined if it cannot. */
  end? (world: World): Promise<number | undefined>
}

/** A kind of fault. */
export type Fault = (random: Random) => Incident

const prefix = 'llm-quota:'

/** Faults of the server. */
export const serverFaults: Readonly<Record<string, Fault>> = {
  kill (random) {
    const lasts = random.integer(50, 2_000)
    return {
      description: `the server is killed, and started empty ${lasts} ms later`,
      lasts,
      begin: ({ server }) => server.kill(),
      async end ({ server }) {
        await server.start()
        return 1
      }
    }
  },
  load (random) {
    const lasts = random.integer(200, 2_000)
    const others = Array.from({ length: 100 }, (_, number) => `other data ${number}`)
    let started: Promise<void> | undefined
    return {
      description: `the server saves its data, ends, starts again, and loads the data for about ${lasts} ms`,
      lasts,
      async begin (world) {
        const { server } = world
        await world.administer('MSET', ...others.flatMap((name) => [name, 'x'.repeat(1_024)]))
        await world.administer('CONFIG', 'SET', 'rdbcompression', 'no')
        await world.administer('SHUTDOWN', 'SAVE').catch(() => {})
        await server.kill()
        started = server.start('--key-load-delay', String(Math.ceil(1_000 * lasts / others.length)), '--loading-process-events-interval-bytes', '1024')
      },
      async end (world) {
        await started
        rmSync(dataFile(world.server))
        await world.administer('DEL', ...others)
        return undefined
      }
    }
  },
  freeze (random) {
    const lasts = random.integer(50, 2_500)
    return {
      description: `the server is frozen for ${lasts} ms`,
      lasts,
      begin: async ({ server }) => { server.signal('SIGSTOP') },
      end: async ({ server }) => { server.signal('SIGCONT'); return undefined }
    }
  },
  flush () {
    return { description: 'FLUSHALL', lasts: 100, begin: (world) => world.administer('FLUSHALL'), end: async () => 1 }
  },
  scriptFlush () {
    return { description: 'SCRIPT FLUSH', lasts: 100, begin: (world) => world.administer('SCRIPT', 'FLUSH') }
  },
  delete (random) {
    const times = random.integer(1, 3)
    let lost = 0
    return {
      description: `every key is deleted, ${times} times`,
      lasts: 100,
      async begin (world) {
        for (let time = 0; time < times; time++) {
          const keys = await world.administer('KEYS', `${prefix}*`)
          for (const key of Array.isArray(keys) ? keys : []) lost += Number(await world.administer('DEL', String(key)))
        }
      },
      end: async () => lost
    }
  },
  evict (random) {
    const policy = random.pick(['allkeys-random', 'allkeys-lru', 'volatile-ttl'])
    const lasts = random.integer(50, 1_500)
    let before = 0
    return {
      description: `the server is full for ${lasts} ms and evicts keys (${policy})`,
      lasts,
      async begin (world) {
        before = await world.evicted()
        await world.administer('CONFIG', 'SET', 'maxmemory-policy', policy)
        await world.administer('CONFIG', 'SET', 'maxmemory', '1')
      },
      async end (world) {
        await world.administer('CONFIG', 'SET', 'maxmemory', '0')
        await world.administer('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
        return await world.evicted() - before
      }
    }
  },
  full: configured('the server is full and evicts nothing', ['maxmemory', '1', '0']),
  cannotSave (random) {
    const lasts = random.integer(50, 1_500)
    return {
      description: `the server takes no writes for ${lasts} ms, since it cannot save`,
      lasts,
      async begin (world) {
        mkdirSync(dataFile(world.server))
        await world.administer('CONFIG', 'SET', 'save', '3600 1')
        await world.administer('BGSAVE')
        while (!String(await world.administer('INFO', 'persistence')).includes('rdb_last_bgsave_status:err')) await sleep(5)
      },
      async end (world) {
        await world.administer('CONFIG', 'SET', 'save', '')
        rmSync(dataFile(world.server), { recursive: true })
        return undefined
      }
    }
  },
  noReplicas: configured('the server takes no writes, for want of replicas', ['min-replicas-to-write', '1', '0']),
  demote (random) {
    const lasts = random.integer(50, 1_500)
    return {
      description: `the server is a replica for ${lasts} ms`,
      lasts,
      begin: (world) => world.administer('REPLICAOF', '127.0.0.1', '1'),
      end: async (world) => { await world.administer('REPLICAOF', 'NO', 'ONE'); return undefined }
    }
  },
  maxClients (random) {
    const lasts = random.integer(50, 1_500)
    let administrator: Redis | undefined
    return {
      description: `connections are reset, and the server accepts no other for ${lasts} ms, since it has as many as it may`,
      lasts,
      async begin ({ server, proxies }) {
        administrator = server.client()
        await administrator.config('SET', 'maxclients', 1)
        for (const proxy of proxies) proxy.reset()
      },
      async end () {
        await administrator?.config('SET', 'maxclients', 10_000)
        administrator?.disconnect()
        return undefined
      }
    }
  },
  password (random) {
    const lasts = random.integer(50, 1_500)
    const setPassword = (world: World, password: string) => world.administer('ACL', 'SETUSER', credentials.username, 'resetpass', `>${password}`)
    return {
      description: `connections are reset, and the password of the instances is wrong for ${lasts} ms`,
      lasts,
      async begin (world) {
        await setPassword(world, 'another')
        for (const proxy of world.proxies) proxy.reset()
      },
      end: async (world) => { await setPassword(world, credentials.password); return undefined }
    }
  },
  busy (random) {
    const lasts = random.integer(50, 1_500)
    return {
      description: `a script of somebody else keeps the server busy for ${lasts} ms`,
      lasts,
      async begin (world) {
        await world.administer('CONFIG', 'SET', 'lua-time-limit', '20')
        // The command fails because the server ends.
        world.administer('EVAL', 'while true do end', '0').catch(() => {})
      },
      end: async (world) => { await world.administer('SCRIPT', 'KILL'); return undefined }
    }
  },
  pause (random) {
    const lasts = random.integer(50, 1_500)
    const kind = random.pick(['ALL', 'WRITE'])
    return { description: `CLIENT PAUSE ${lasts} ${kind}`, lasts, begin: (world) => world.administer('CLIENT', 'PAUSE', String(lasts), kind) }
  }
}

/** Faults of the network. */
export const networkFaults: Readonly<Record<string, Fault>> = {
  slow (random) {
    const [least, most] = random.pick([[20, 80], [85, 115], [95, 105], [150, 600]] as const)
    const lasts = random.integer(300, 2_000)
    return onProxies(random, `replies take ${least} to ${most} ms for ${lasts} ms`, lasts, (proxy) => {
      proxy.delay(() => least + Math.random() * (most - least))
    })
  },
  cut (random) {
    const replies = random.integer(1, 8)
    return onProxies(random, `${replies} replies are cut in the middle`, 200, (proxy) => { proxy.cut(replies) })
  },
  reset (random) {
    return onProxies(random, 'connections are reset', random.integer(50, 200), (proxy) => { proxy.reset() })
  },
  unreachable (random) {
    const lasts = random.integer(50, 2_500)
    return onProxies(random, `connections are reset and rejected for ${lasts} ms`, lasts, (proxy) => {
      proxy.reject(true)
      proxy.reset()
    })
  },
  silence (random) {
    const incident = onProxies(random, 'connections fall silent without an end', random.integer(1_000, 1_500), (proxy) => { proxy.silence() })
    return {
      ...incident,
      async end (world) {
        // If the client does not close silent connections, the network resets them.
        if (!world.noticesSilence) for (const proxy of world.proxies) proxy.endSilence()
        return incident.end?.(world)
      }
    }
  }
}

/** Faults of the instances. */
export const instanceFaults: Readonly<Record<string, Fault>> = {
  stall (random) {
    const milliseconds = random.integer(30, 400)
    const times = random.integer(1, 5)
    const stalled = random.pick([[0], [1], [0, 1]])
    return {
      description: `the event loop of instance ${stalled.join(' and ')} stalls for ${milliseconds} ms, ${times} times in a row`,
      lasts: milliseconds * times + 50,
      stalls: milliseconds * times,
      begin: async ({ instances }) => { for (const place of stalled) instances[place]?.tell('stall', milliseconds, times) }
    }
  },
  freezeInstance (random) {
    const lasts = random.integer(50, 600)
    const place = random.integer(0, 1)
    return {
      description: `instance ${place} is frozen for ${lasts} ms`,
      lasts,
      stalls: lasts,
      begin: async ({ instances }) => { instances[place]?.signal('SIGSTOP') },
      end: async ({ instances }) => { instances[place]?.signal('SIGCONT'); return undefined }
    }
  },
  stepInsuredClock (random) {
    const seconds = random.pick([-1, 1]) * random.integer(1, 600)
    const place = random.integer(0, 1)
    return {
      description: `the clock of the insured store of instance ${place} steps by ${seconds} s`,
      lasts: 100,
      begin: async ({ instances }) => { instances[place]?.tell('stepInsuredClock', seconds * 1_000) }
    }
  }
}

/** Faults of the clock, if the instances provide the time. */
export const clockFaults: Readonly<Record<string, Fault>> = {
  stepStoreClock (random) {
    const seconds = random.pick([-1, 1]) * random.integer(1, 600)
    return {
      description: `the clock of the counters steps by ${seconds} s`,
      lasts: 100,
      begin: async ({ instances }) => { for (const instance of instances) instance.tell('stepStoreClock', seconds * 1_000) },
      // The clocks of the instances do not step at the same instant, so a window can end on one instance before it ends on the other.
      end: async () => 2
    }
  }
}

function dataFile ({ directory }: World['server']): string {
  return join(directory, 'dump.rdb')
}

function configured (what: string, [name, bad, good]: readonly [name: string, bad: string, good: string]): Fault {
  return (random) => {
    const lasts = random.integer(50, 1_500)
    return {
      description: `${what}, for ${lasts} ms`,
      lasts,
      begin: (world) => world.administer('CONFIG', 'SET', name, bad),
      end: async (world) => { await world.administer('CONFIG', 'SET', name, good); return undefined }
    }
  }
}

function onProxies (random: Random, what: string, lasts: number, begin: (proxy: World['proxies'][number]) => void): Incident {
  const places = random.pick([[0], [1], [0, 1]])
  return {
    description: `between instance ${places.join(' and ')} and the server, ${what}`,
    lasts,
    begin: async ({ proxies }) => { for (const place of places) if (proxies[place] !== undefined) begin(proxies[place]) },
    end: async ({ proxies }) => { for (const proxy of proxies) proxy.recover(); return undefined }
  }
}
