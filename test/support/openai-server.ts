import { createServer, type ServerResponse } from 'node:http'
import { json as readJson } from 'node:stream/consumers'
import type { Test } from 'tap'
import { listenOnLoopback } from './loopback.js'

/** A request for a chat completion. */
export interface ChatRequest {
  readonly model: string
  readonly stream: boolean
  readonly max_tokens?: number
  readonly max_completion_tokens?: number
  readonly messages: readonly { readonly role: string; readonly content: string }[]
  readonly response_format?: {
    readonly json_schema: { readonly name: string; readonly schema: object }
  }
  readonly stream_options?: { readonly include_usage: boolean }
  readonly [field: string]: unknown
}

/** Answers a request, in any way that a server can. */
export type ChatAnswer = (request: ChatRequest, response: ServerResponse) => unknown

/** A server for the protocol of OpenAI's chat completions. There is no language model behind it. */
export interface OpenAiServer {
  readonly url: string
  readonly requests: ChatRequest[]
  answer: ChatAnswer
}

export async function startOpenAiServer (
  t: Test,
  answer: ChatAnswer = () => {}
): Promise<OpenAiServer> {
  const http = createServer()
  const { port, stop } = await listenOnLoopback(http)
  const server: OpenAiServer = {
    url: `http://127.0.0.1:${port}/v1`,
    requests: [],
    answer
  }
  http.on('request', (request, response) => {
    if (request.method === 'GET') {
      response.end('{"object":"list","data":[]}')
      return
    }
    readJson(request)
      .then((body) => {
        const chat = body as ChatRequest
        server.requests.push(chat)
        return server.answer(chat, response)
      })
      .catch((error: unknown) => {
        response.writeHead(400).end(String(error))
      })
  })
  t.teardown(stop)
  return server
}

/** Answers with a content, which is JSON unless it is a text. */
export function complete (response: ServerResponse, content: unknown, usage?: object): void {
  const message = {
    role: 'assistant',
    content: typeof content === 'string' ? content : JSON.stringify(content)
  }
  response
    .writeHead(200, { 'content-type': 'application/json' })
    .end(JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage }))
}

/** Streams a part of the content, with the usage so far if it is given. */
export function streamPart (
  response: ServerResponse,
  content: string,
  finishReason: string | null = null,
  usage?: object
): void {
  if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' })
  const choice = { index: 0, delta: { content }, finish_reason: finishReason }
  response.write(`data: ${JSON.stringify({ choices: [choice], usage })}\n\n`)
}

/** Streams a call of a tool without arguments, and ends. */
export function callTool (response: ServerResponse, name: string, usage: object): void {
  const call = { index: 0, id: 'call-1', type: 'function', function: { name, arguments: '{}' } }
  const choice = { index: 0, delta: { tool_calls: [call] }, finish_reason: 'tool_calls' }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(`data: ${JSON.stringify({ choices: [choice] })}\n\n`)
  response.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`)
}

export function endStream (response: ServerResponse, usage?: object): void {
  streamPart(response, '', 'stop')
  response.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`)
}
