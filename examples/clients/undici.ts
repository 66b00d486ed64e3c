import { Agent, interceptors, request, RetryAgent } from 'undici'

const options = { methods: ['POST' as const], maxTimeout: 60_000 }
const retryAgent = new RetryAgent(new Agent(), options)
// The same, with an interceptor.
const composed = new Agent().compose(interceptors.retry(options))

export async function ask (address: string, token: string): Promise<string> {
  const { body } = await request(`${address}/api/analyze`, { method: 'POST', headers: { authorization: `Bearer ${token}` }, dispatcher: retryAgent })
  return await body.text()
}

export async function askIntercepted (address: string, token: string): Promise<string> {
  const { body } = await request(`${address}/api/analyze`, { method: 'POST', headers: { authorization: `Bearer ${token}` }, dispatcher: composed })
  return await body.text()
}
