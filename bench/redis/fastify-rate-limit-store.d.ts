declare module '@fastify/rate-limit/store/RedisStore.js' {
  import type { Redis } from 'ioredis'

  export default class RedisStore {
    constructor (continueExceeding: boolean, exponentialBackoff: boolean, redis: Redis)
    incr (caller: string, answered: (error: Error | null, counter: unknown) => void, timeWindow: number, max: number): void
  }
}
