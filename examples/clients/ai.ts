import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText } from 'ai'

/** A `fetch` that waits after a 429 for the time in `Retry-After` and then sends the request once more. */
async function patientFetch (...request: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(...request)
  const seconds = Number(response.headers.get('retry-after'))
  if (response.status !== 429 || !(seconds > 0)) return response
  await response.body?.cancel()
  await new Promise((resolve) => { setTimeout(resolve, seconds * 1000) })
  return await fetch(...request)
}

export async function ask (address: string, token: string): Promise<string> {
  const provider = createOpenAICompatible({ name: 'service', baseURL: `${address}/v1`, apiKey: token, fetch: patientFetch })
  const { text } = await generateText({ model: provider('any'), prompt: 'Which invoices are late?' })
  return text
}
