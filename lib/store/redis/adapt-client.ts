import { OptionError, formatType } from '../../errors.js'
import { hasFunction } from '../../option-checks.js'
import { adaptIoredis } from './adapt-ioredis.js'
import { adaptNodeRedis } from './adapt-node-redis.js'
import { adaptValkeyGlide } from './adapt-valkey-glide.js'
import type {
  IoredisClient,
  NodeRedisClient,
  QuotaRedisClient,
  ValkeyGlideClient
} from './clients.js'

/**
 * Adapts the value of the option `client`. Throws an `OptionError` if it is not a supported client.
 */
export function adaptClient (client: unknown): QuotaRedisClient {
  if (hasFunctions<QuotaRedisClient>(client, 'evaluateDigest', 'evaluateSource')) return client
  if (hasFunctions<ValkeyGlideClient>(client, 'customCommand')) return adaptValkeyGlide(client)
  if (hasFunctions<NodeRedisClient>(client, 'evalSha', 'eval')) return adaptNodeRedis(client)
  if (hasFunctions<IoredisClient>(client, 'evalsha', 'eval')) {
    const rule = 'must not be a client of redis 3 or earlier, which returns no promises'
    if (isEarlyNodeRedis(client)) throw new OptionError('client', rule, client, formatType)
    return adaptIoredis(client)
  }
  const rule =
    'must be a client of ioredis, iovalkey, redis or @valkey/valkey-glide, or a QuotaRedisClient'
  throw new OptionError('client', rule, client, formatType)
}

// Its commands have the names of those of ioredis, which has no function `batch`.
function isEarlyNodeRedis (client: object): boolean {
  return hasFunction(client, 'batch') && !hasFunction(client, 'pipeline')
}

function hasFunctions<Client> (
  client: unknown,
  ...names: (keyof Client & string)[]
): client is Client {
  return names.every((name) => hasFunction(client, name))
}
