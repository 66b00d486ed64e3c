import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { listenOnLoopback, portOf } from './loopback.js'

/** What each response of the server uses: 12 tokens of input and 30 of output. */
export const tokensOfResponse = 42

const openAiUsage = { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 }

/** A server for the protocols of OpenAI's chat completions and of Anthropic's messages, without a language model. */
export class ModelServer {
  /** The models that were asked for, in order. */
  readonly models: string[] = []
  /** Holds each streamed response after its first part, until the client is gone. */
  isHeld = false
  #abandoned = (): void => {}
  readonly #server = createServer((request, response) => {
    this.#respond(request, response).catch((error: unknown) => { response.writeHead(400).end(String(error)) })
  })

  static async start (): Promise<ModelServer> {
    const server = new ModelServer()
    await listenOnLoopback(server.#server)
    return server
  }

  get url (): string {
    return `http://127.0.0.1:${portOf(this.#server)}`
  }

  /** Resolves when the client of a held response is gone. */
  async abandoned (): Promise<void> {
    await new Promise<void>((resolve) => { this.#abandoned = resolve })
  }

  async stop (): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async #respond (request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part)
    const { model, stream } = JSON.parse(Buffer.concat(parts).toString())
    this.models.push(model)
    if (stream !== true) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ...completion(model), choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Two invoices.' } }], usage: openAiUsage }))
      return
    }
    const events = request.url === '/v1/messages' ? anthropicEvents(model) : openAiEvents(model)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const [index, event] of events.entries()) {
      response.write(event)
      if (this.isHeld && index === 2) {
        response.once('close', () => { this.#abandoned() })
        return
      }
    }
    response.end()
  }
}

function completion (model: string): object {
  return { id: '1', object: 'chat.completion', created: 1, model }
}

function openAiEvents (model: string): string[] {
  const chunks = ['Two', ' invoices', '.'].map((content) => ({ choices: [{ index: 0, finish_reason: null, delta: { role: 'assistant', content } }], usage: null }))
  const last = [{ choices: [{ index: 0, finish_reason: 'stop', delta: {} }], usage: null }, { choices: [], usage: openAiUsage }]
  return [...[...chunks, ...last].map((chunk) => `data: ${JSON.stringify({ ...completion(model), object: 'chat.completion.chunk', ...chunk })}\n\n`), 'data: [DONE]\n\n']
}

function anthropicEvents (model: string): string[] {
  const message = { id: '1', type: 'message', role: 'assistant', model, content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 12, output_tokens: 1 } }
  const text = (text: string) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })
  return [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    text('Two'),
    text(' invoices.'),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 30 } },
    { type: 'message_stop' }
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
}
