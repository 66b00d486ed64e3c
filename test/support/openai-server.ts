import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { json as readJson } from 'node:stream/consumers'
import type { Test } from 'tap'
import { listenOnLoopback, type Listening } from './loopback.js'

export interface ChatRequest {
  readonly path: string | undefined
  readonly model: string
  readonly stream: boolean
  /** Whether a stream ends with the number of tokens that it used. */
  readonly includesUsage: boolean
  /** The system message, and the user message. */
  readonly instruction: string
  readonly text: string
  readonly schema: { readonly name: string, readonly strict: boolean, readonly schema: { readonly properties: Record<string, object> } }
  readonly authorization: string | undefined
}

/** Answers a request. It can also misbehave in any way that a server can. */
export type ChatAnswer = (request: ChatRequest, response: ServerResponse) => void | Promise<void>

/** A server for the protocol of OpenAI's chat completions, with answers that a test prepares. There is no language model behind it. */
export class OpenAiServer {
  readonly requests: ChatRequest[] = []
  /** The number of requests whose connection the client closed before the answer was complete. */
  abandoned = 0
  answer: ChatAnswer
  readonly url: string
  readonly stop: () => Promise<void>
  #wake = (): void => {}

  private constructor (answer: ChatAnswer, { port, stop }: Listening) {
    this.answer = answer
    this.url = `http://127.0.0.1:${port}/v1`
    this.stop = stop
  }

  /** Starts a server, and stops it after the test. */
  static async start (t: Test, answer: ChatAnswer): Promise<OpenAiServer> {
    const http = createServer()
    const server = new OpenAiServer(answer, await listenOnLoopback(http))
    http.on('request', (request, response) => {
      response.once('close', () => {
        if (!response.writableFinished) server.abandoned++
        server.#wake()
      })
      server.#take(request, response).catch((error: unknown) => { response.writeHead(400).end(String(error)) })
    })
    t.teardown(server.stop)
    return server
  }

  /** Resolves when that many requests have been abandoned. */
  async abandonedBy (clients: number): Promise<void> {
    while (this.abandoned < clients) await new Promise<void>((resolve) => { this.#wake = resolve })
  }

  /** Resolves when that many requests have arrived. */
  async asked (times: number): Promise<void> {
    while (this.requests.length < times) await new Promise<void>((resolve) => { this.#wake = resolve })
  }

  async #take (request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { model, stream = false, messages, response_format: format, stream_options: options } = Object(await readJson(request))
    const [instruction, text] = messages.map(({ content }: { content: string }) => content)
    const taken = { path: request.url, model, stream, includesUsage: options?.include_usage === true, instruction, text, schema: format?.json_schema, authorization: request.headers.authorization }
    this.requests.push(taken)
    this.#wake()
    await this.answer(taken, response)
  }
}

export function complete (response: ServerResponse, content: unknown, more: object = {}, usage?: object): void {
  const message = { role: 'assistant', content: typeof content === 'string' ? content : JSON.stringify(content), refusal: null }
  json(response, 200, { id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', choices: [{ index: 0, message, finish_reason: 'stop', logprobs: null, ...more }], usage })
}

export function beginStream (response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
}

function writeChunk (response: ServerResponse, chunk: object): void {
  response.write(`data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', ...chunk })}\n\n`)
}

export function streamPart (response: ServerResponse, content: string | undefined, finishReason: string | null = null): void {
  const delta = content === undefined ? {} : { content }
  writeChunk(response, { choices: [{ index: 0, delta, finish_reason: finishReason }] })
}

/** Ends a streamed answer properly. */
export function endStream (response: ServerResponse, usage?: object): void {
  streamPart(response, undefined, 'stop')
  if (usage !== undefined) writeChunk(response, { choices: [], usage })
  response.end('data: [DONE]\n\n')
}

export function json (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
