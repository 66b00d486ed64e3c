export type {
  IoredisClient,
  NodeRedisClient,
  QuotaRedisClient,
  SupportedRedisClient,
  ValkeyGlideClient
} from './store/redis/clients.js'
export { RedisQuotaStore, type RedisQuotaStoreOptions } from './store/redis/redis-store.js'
