import type { QuotaRedisClient, ValkeyGlideClient } from './clients.js'
import { leaverOf } from './replica-leaver.js'

export function adaptValkeyGlide (client: ValkeyGlideClient): QuotaRedisClient {
  const leaver = leaverOf(client, () => client.customCommand(['QUIT']))
  const send = async (
    command: string,
    script: string,
    keys: readonly string[],
    parameters: readonly (string | Buffer)[]
  ) => {
    try {
      return await leaver.watch(
        client.customCommand([command, script, String(keys.length), ...keys, ...parameters])
      )
    } catch (error) {
      // The client replaces the codes of some error replies by names of its own.
      const isUnknown =
        error instanceof Error &&
        error.name === 'RequestError' &&
        error.message.includes('NoScriptError')
      throw isUnknown ? new Error('NOSCRIPT', { cause: error }) : error
    }
  }
  return {
    readiness: () => (leaver.isLeaving ? 'connecting' : 'ready'),
    evaluateDigest: (digest, keys, parameters) => send('EVALSHA', digest, keys, parameters),
    evaluateSource: (source, keys, parameters) => send('EVAL', source, keys, parameters)
  }
}
