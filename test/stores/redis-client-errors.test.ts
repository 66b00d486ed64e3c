// What the store does with the errors of a client of Valkey GLIDE. A script that the server may have executed must not be sent again.
import t from 'tap'
import { RedisQuotaStore } from '../../lib/redis.js'
import { acquireOne } from '../support/acquire-one.js'

/** Returns a store whose client fails when it runs a cached script, and the commands that the client got. */
function storeWhoseCachedScriptFails (error: unknown) {
  const commands: string[] = []
  const client = {
    async customCommand ([command = '']: string[]) {
      commands.push(command)
      if (command === 'EVALSHA') throw error
      return [1, 60_000, 5]
    }
  }
  return { store: new RedisQuotaStore({ client }), commands }
}

/** An error of the client, whose name is that of its class. */
function glideError (name: string, message = 'a sentence made for people'): Error {
  return Object.assign(new Error(message), { name })
}

t.test('a script is sent as source if the server does not know it', async (t) => {
  const { store, commands } = storeWhoseCachedScriptFails(glideError('RequestError', 'An error was signalled by the server: - NoScriptError: No matching script.'))
  await acquireOne(store, 'alice')
  t.match(await acquireOne(store, 'alice'), { admitted: true })
  t.same(commands, ['EVAL', 'EVALSHA', 'EVAL'])
})

t.test('a replica is left at most once a second', async (t) => {
  const quits: string[] = []
  const quit = async ([command = '']: string[]) => { if (command === 'QUIT') quits.push(command) }
  const readOnly = async () => { throw new Error('READONLY You can\'t write against a read only replica.') }
  const clients = {
    redis: { isReady: true, evalSha: readOnly, eval: readOnly, sendCommand: quit },
    'valkey-glide': {
      async customCommand (command: string[]) {
        await quit(command)
        throw glideError('RequestError', 'An error was signalled by the server: - ReadOnly: You can\'t write against a read only replica.')
      }
    }
  }
  for (const [name, client] of Object.entries(clients)) {
    const store = new RedisQuotaStore({ client })
    for (let request = 0; request < 5; request++) await t.rejects(acquireOne(store, 'alice'))
    await new Promise((resolve) => { setImmediate(resolve) })
    t.equal(quits.splice(0).length, 1, name)
  }
})

const errors = [...['RequestError', 'TimeoutError', 'ConnectionError', 'ExecAbortError', 'ClosingError', 'Error'].map((name) => glideError(name)), 'RequestError']
for (const error of errors) {
  t.test(`a script is not sent again after ${error instanceof Error ? error.name : 'a value that is no error'}`, async (t) => {
    const { store, commands } = storeWhoseCachedScriptFails(error)
    await acquireOne(store, 'alice')
    await t.rejects(acquireOne(store, 'alice'))
    t.same(commands, ['EVAL', 'EVALSHA'])
  })
}
