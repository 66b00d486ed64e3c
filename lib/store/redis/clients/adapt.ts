import { OptionError, shownType } from '../../../errors.js'
import { hasFunction } from '../../../option-checks.js'
import type { QuotaRedisClient } from '../client.js'
import { adaptIoredis, type IoredisClient } from './ioredis.js'
import { adaptNodeRedis, type NodeRedisClient } from './node-redis.js'
import { adaptValkeyGlide, type ValkeyGlideClient } from './valkey-glide.js'

/** The clients that the store can use. They are recognised by their functions, not by their class. */
export type SupportedRedisClient = IoredisClient | NodeRedisClient | ValkeyGlideClient | QuotaRedisClient

/** Adapts the value of the option `client`. Throws an `OptionError` if it is not a supported client. */
export function adaptClient (client: unknown): QuotaRedisClient {
  if (hasFunctions<QuotaRedisClient>(client, 'evaluateDigest', 'evaluateSource')) return client
  if (hasFunctions<ValkeyGlideClient>(client, 'customCommand')) return adaptValkeyGlide(client)
  if (hasFunctions<NodeRedisClient>(client, 'evalSha', 'eval')) return adaptNodeRedis(client)
  if (hasFunctions<IoredisClient>(client, 'evalsha', 'eval')) return adaptIoredis(client)
  const rule = 'must be a client of ioredis, iovalkey, redis or @valkey/valkey-glide, or a QuotaRedisClient'
  throw new OptionError('client', rule, client, shownType)
}

function hasFunctions<Client> (client: unknown, ...names: (keyof Client & string)[]): client is Client {
  return names.every((name) => hasFunction(client, name))
}
