// What the store does with the errors of a client of Valkey GLIDE. A script that the server may have executed must not be sent again.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'

const executed = (2 ** 27 + 60_000) * 4 + 1

/** Returns a store whose client fails when it runs a cached script, and the commands that the client got. */
function storeWhoseCachedScriptFails (error: unknown) {
  const commands: string[] = []
  const client = {
    async customCommand ([command = '']: string[]) {
      commands.push(command)
      if (command === 'EVALSHA') throw error
      return executed
    }
  }
  return { store: new RedisQuotaStore({ client }), commands }
}

/** An error of the client, whose name is that of its class. */
function glideError (name: string): Error {
  return Object.assign(new Error('a sentence made for people'), { name })
}

t.test('a script is sent as source after an error reply of the server, after which nothing was counted', async (t) => {
  const { store, commands } = storeWhoseCachedScriptFails(glideError('RequestError'))
  await store.acquire('alice', 5)
  t.match(await store.acquire('alice', 5), { admitted: true })
  t.same(commands, ['EVAL', 'EVALSHA', 'EVAL'])
})

for (const error of [...['TimeoutError', 'ConnectionError', 'ExecAbortError', 'ClosingError', 'Error'].map(glideError), 'RequestError']) {
  t.test(`a script is not sent again after ${error instanceof Error ? error.name : 'a value that is no error'}`, async (t) => {
    const { store, commands } = storeWhoseCachedScriptFails(error)
    await store.acquire('alice', 5)
    await t.rejects(async () => store.acquire('alice', 5))
    t.same(commands, ['EVAL', 'EVALSHA'])
  })
}

t.test('the constructor throws if a required function of the client is missing', async (t) => {
  const run = async (): Promise<null> => null
  for (const client of [{ evaluateDigest: run, evaluateSource: run }, { evaluateSource: run, removeKey: run }, { evalsha: run, unlink: run }]) {
    t.throws(() => Reflect.construct(RedisQuotaStore, [{ client }]), { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /option client must be a client of/ })
  }
})
