import Anthropic from '@anthropic-ai/sdk'

/** Waits by default: no option is needed. */
export async function ask (address: string, token: string): Promise<string> {
  const client = new Anthropic({ baseURL: address, authToken: token })
  const message = await client.messages.create({ model: 'any', max_tokens: 100, messages: [{ role: 'user', content: 'Which invoices are late?' }] })
  return message.content.map((block) => block.type === 'text' ? block.text : '').join('')
}
