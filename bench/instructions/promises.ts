// Prints how many promises a request creates in addition to those of the host, as JSON by situation.
import { createHook } from 'node:async_hooks'
import Fastify from 'fastify'
import { servers, type Scenario } from '../http/servers.js'

const requests = 1_000
const nothing: Scenario = { limit: 1_000_000_000, asynchronousPreference: false, asynchronousStore: false, asynchronousAuthentication: false, decisionsSubscribed: false, redis: undefined }

let created = 0
const hook = createHook({ init (_id, type) { if (type === 'PROMISE') created += 1 } })

const bare = await promises('bare', nothing)
// In each asynchronous situation, the host's own function creates one promise.
console.log(JSON.stringify({
  synchronous: await promises('fastify-llm-quota', nothing) - bare,
  'asynchronous store': await promises('fastify-llm-quota', { ...nothing, asynchronousStore: true }) - bare - 1,
  'asynchronous reader': await promises('fastify-llm-quota', { ...nothing, asynchronousPreference: true }) - bare - 1,
  'asynchronous authentication': await promises('fastify-llm-quota', { ...nothing, asynchronousAuthentication: true }) - bare - 1
}))

async function promises (name: string, scenario: Scenario): Promise<number> {
  const app = Fastify()
  app.decorateRequest('user')
  app.addHook('onRequest', (request, _reply, done) => {
    request.user = { iss: 'https://identity.example', sub: 'alice' }
    done()
  })
  await servers[name]?.(app, scenario)
  const request = async () => await app.inject('/api/analyze-node')
  for (let warmUp = 0; warmUp < 10; warmUp++) await request()
  created = 0
  hook.enable()
  for (let sent = 0; sent < requests; sent++) await request()
  hook.disable()
  await app.close()
  return created / requests
}
