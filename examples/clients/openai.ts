import OpenAI from 'openai'

/** Waits by default: no option is needed. */
export async function ask (address: string, token: string): Promise<string | null | undefined> {
  const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: token })
  const completion = await client.chat.completions.create({ model: 'any', messages: [{ role: 'user', content: 'Which invoices are late?' }] })
  return completion.choices[0]?.message.content
}
