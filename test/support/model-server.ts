import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { listenOnLoopback, type Listening } from './loopback.js'

/** What each response of the server uses: 12 tokens of input and 30 of output. */
export const tokensOfResponse = 42

const openAiUsage = { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 }

/** A server for the protocols of OpenAI's chat completions and of Anthropic's messages, without a language model. */
export class ModelServer {
  /** The models that were asked for, in order. */
  readonly models: string[] = []
  /** Holds each streamed response after its first part, until the client is gone. */
  isHeld = false
  readonly url: string
  readonly stop: () => Promise<void>
  #abandoned = (): void => {}

  private constructor ({ port, stop }: Listening) {
    this.url = `http://127.0.0.1:${port}`
    this.stop = stop
  }

  static async start (): Promise<ModelServer> {
    const http = createServer()
    const server = new ModelServer(await listenOnLoopback(http))
    http.on('request', (request, response) => {
      server.#respond(request, response).catch((error: unknown) => { response.writeHead(400).end(String(error)) })
    })
    return server
  }

  /** Resolves when the client of a held response is gone. */
  async abandoned (): Promise<void> {
    await new Promise<void>((resolve) => { this.#abandoned = resolve })
  }

  async #respond (request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { model, stream }: { model: string, stream?: boolean } = Object(await json(request))
    this.models.push(model)
    if (stream !== true) {
      const choices = [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Two invoices.' } }]
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ id: '1', object: 'chat.completion', created: 1, model, choices, usage: openAiUsage }))
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

function openAiEvents (model: string): string[] {
  const deltas = ['Two', ' invoices', '.'].map((content) => ({ role: 'assistant', content }))
  const choices = [...deltas, {}].map((delta, index) => [{ index: 0, finish_reason: index < deltas.length ? null : 'stop', delta }])
  const chunks = [...choices.map((choices) => ({ choices, usage: null })), { choices: [], usage: openAiUsage }]
  return [...chunks.map((chunk) => `data: ${JSON.stringify({ id: '1', object: 'chat.completion.chunk', created: 1, model, ...chunk })}\n\n`), 'data: [DONE]\n\n']
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
