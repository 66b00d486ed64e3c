export { RedisQuotaStore } from './redis/redis-store.js'
export type { RedisClient } from './redis/client.js'
export type { RedisQuotaStoreOptions } from './redis/redis-store.js'
