// What the store does with the errors of a client of Valkey GLIDE. A script that the server may have executed must not be sent again.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'

const executed = 2 ** 28 + 60_000_000 * 4 + 1

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

for (const colon of ['', ':']) {
  t.test(`a script that the server does not know is sent as source ('server${colon}')`, async (t) => {
    const { store, commands } = storeWhoseCachedScriptFails(new Error(`An error was signalled by the server${colon} - NoScriptError: No matching script`))
    await store.acquire('alice', 5)
    t.match(await store.acquire('alice', 5), { admitted: true })
    t.same(commands, ['EVAL', 'EVALSHA', 'EVAL'])
  })
}

const others = [
  new Error('timed out'), new Error('An error was signalled by the server: - ResponseError: WRONGTYPE'),
  new Error('timed out after: An error was signalled by the server: - NoScriptError'), 'An error was signalled by the server: - NoScriptError'
]
for (const error of others) {
  t.test(`a script is not sent again after ${error}`, async (t) => {
    const { store, commands } = storeWhoseCachedScriptFails(error)
    await store.acquire('alice', 5)
    await t.rejects(async () => store.acquire('alice', 5))
    t.same(commands, ['EVAL', 'EVALSHA'])
  })
}

t.test('the error of a script that the server does not know has the cause', async (t) => {
  const cause = new Error('An error was signalled by the server: - NoScriptError: No matching script')
  const client = { async customCommand () { throw cause } }
  const store = new RedisQuotaStore({ client })
  await t.rejects(async () => store.acquire('alice', 5), cause)
  await t.rejects(async () => store.acquire('alice', 5), cause)
})

t.test('the constructor throws if a required function of the client is missing', async (t) => {
  const run = async (): Promise<null> => null
  for (const client of [{ evaluateDigest: run, evaluateSource: run }, { evaluateSource: run, removeKey: run }, { evalsha: run, unlink: run }]) {
    t.throws(() => Reflect.construct(RedisQuotaStore, [{ client }]), { code: 'FST_ERR_LLM_QUOTA_OPTION', message: /option client must be a client of/ })
  }
})
