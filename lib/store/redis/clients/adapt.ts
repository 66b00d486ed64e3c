import { OptionError, shownType } from '../../../errors.js'
import { hasFunction } from '../../../option-checks.js'
import type { QuotaRedisClient } from '../client.js'
import { adaptIoredis, isIoredis, type IoredisClient } from './ioredis.js'
import { adaptNodeRedis, isNodeRedis, type NodeRedisClient } from './node-redis.js'
import { adaptValkeyGlide, isValkeyGlide, type ValkeyGlideClient } from './valkey-glide.js'

/** The clients that the store can use. They are recognised by their functions, not by their class. */
export type SupportedRedisClient = IoredisClient | NodeRedisClient | ValkeyGlideClient | QuotaRedisClient

/** Adapts the value of the option `client`. Throws an `OptionError` if it is not a supported client. */
export function adaptClient (client: unknown): QuotaRedisClient {
  if (isQuotaRedisClient(client)) return client
  if (isValkeyGlide(client)) return adaptValkeyGlide(client)
  if (isNodeRedis(client)) return adaptNodeRedis(client)
  if (isIoredis(client)) return adaptIoredis(client)
  const rule = 'must be a client of ioredis, iovalkey, redis or @valkey/valkey-glide, or a QuotaRedisClient'
  throw new OptionError('client', rule, client, shownType)
}

function isQuotaRedisClient (client: unknown): client is QuotaRedisClient {
  return ['evaluateDigest', 'evaluateSource'].every((name) => hasFunction(client, name))
}
