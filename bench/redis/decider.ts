// Takes decisions with one limiter in a separate process, as many as each message says, and reports when they are done.
import RedisStore from '@fastify/rate-limit/store/RedisStore.js'
import { callerKey, localAuthentication } from 'fastify-llm-quota'
import { RedisQuotaStore } from 'fastify-llm-quota/redis'
import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'

type Decide = (caller: string) => unknown

const limit = 1_000_000
const [name = '', port = '', atOnce = '1'] = process.argv.slice(2)
const callers = Array.from({ length: 500 }, (_, number) => String(callerKey(localAuthentication(`caller ${number}`))))
const client = new Redis({ port: Number(port), host: '127.0.0.1' })

const limiters: Record<string, () => Decide | Promise<Decide>> = {
  'bare INCR and PTTL in a script': async () => {
    const digest = String(await client.script('LOAD', `
      local count = redis.call('INCR', KEYS[1])
      if count == 1 then redis.call('PEXPIRE', KEYS[1], 60000) end
      return {count, redis.call('PTTL', KEYS[1])}`))
    return (caller) => client.evalsha(digest, 1, `bare:${caller}`)
  },
  'rate-limiter-flexible': () => {
    const limiter = new RateLimiterRedis({ storeClient: client, points: limit, duration: 60 })
    return (caller) => limiter.consume(caller)
  },
  '@fastify/rate-limit': () => {
    const store = new RedisStore(false, false, client)
    return (caller) => new Promise<void>((resolve, reject) => {
      store.incr(caller, (error) => {
        if (error === null) resolve()
        else reject(error)
      }, 60_000, limit)
    })
  },
  'this store': () => {
    const store = new RedisQuotaStore({ client })
    return (caller) => store.acquire(caller, limit)
  }
}

const decide = await limiters[name]?.()
if (decide === undefined) throw new Error(`there is no limiter ${name}`)
process.on('message', async (decisions) => {
  for (let done = 0; done < Number(decisions); done += Number(atOnce)) {
    await Promise.all(Array.from({ length: Number(atOnce) }, (_, turn) => decide(callers[(done + turn) % callers.length] ?? '')))
  }
  process.send?.('done')
})
process.send?.('ready')
