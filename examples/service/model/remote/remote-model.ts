import { usedTokens } from 'fastify-llm-quota'
import { APIError, OpenAI } from 'openai'
import { ServiceError } from '../../service-error.js'
import type { Justification, Model, ModelCall, NodeScore, Reading, Sentence } from '../model.js'
import { readabilityOf } from '../readability.js'
import { findNode, type TaxonomyNode } from '../taxonomy.js'
import { analysis, isSentence, justification, type Question, scoresOf, sentences, termOf } from './questions.js'
import { StreamedItems } from './streamed-items.js'

/** The address of a model behind an OpenAI-compatible API. */
export interface RemoteSettings {
  /** The base URL of the API, such as `http://localhost:11434/v1`. */
  readonly url: string
  readonly name: string
  /** Empty if the server does not require a key. */
  readonly key: string
}

// Ten times the size of an answer to the longest text. Prevents a server from filling the memory.
const longestAnswer = 4 * 1024 * 1024
const shortestWait = 1
const usualWait = 5
const longestWait = 60

/** A language model on an OpenAI-compatible server, such as Ollama, vLLM, llama.cpp or a commercial one. Answers are validated by schema. */
export class RemoteModel implements Model {
  readonly description: string
  readonly #client: OpenAI
  readonly #name: string

  constructor ({ url, name, key }: RemoteSettings) {
    this.description = `${name}, at an OpenAI-compatible server`
    this.#name = name
    // Without these options, the client would use its own environment variables, one of which makes it log requests.
    this.#client = new OpenAI({ baseURL: url, apiKey: key === '' ? 'none' : key, organization: null, project: null, logLevel: 'off', maxRetries: 0, fetch: fetchBounded })
  }

  async analyze (text: string, call: ModelCall): Promise<Reading> {
    return { ...await this.#ask(analysis, text, call), readability: readabilityOf(text) }
  }

  async justify (text: string, leaf: string, call: ModelCall): Promise<Justification> {
    const answer = await this.#ask(justification, JSON.stringify({ text, term: termOf(leaf) }), call)
    return { leaf: findNode(leaf)?.name ?? leaf, ...answer }
  }

  async score (text: string, parent: TaxonomyNode, call: ModelCall): Promise<readonly NodeScore[]> {
    if (parent.children.length === 0) {
      call.charge(0)
      return []
    }
    const scores = await this.#ask(scoresOf(parent), text, call)
    return parent.children.map(({ code, name }) => ({ code, name, score: scores[code] ?? 0 })).sort((one, other) => other.score - one.score)
  }

  async stream (text: string, found: (sentence: Sentence) => void, call: ModelCall): Promise<void> {
    let tokens: number | null = null
    try {
      const chunks = await this.#client.chat.completions.create({ ...this.#request(sentences, text), stream: true, stream_options: { include_usage: true } }, { signal: call.signal })
      const items = new StreamedItems()
      let finished = false
      for await (const { choices, usage } of chunks) {
        // Some servers send the usage so far with each chunk, others at the end.
        tokens = usedTokens(usage) ?? tokens
        const choice = Array.isArray(choices) ? choices[0] : undefined
        for (const item of items.take(choice?.delta?.content ?? '')) {
          const sentence: unknown = JSON.parse(item)
          if (!isSentence(sentence)) throw unusable('another shape')
          found(sentence)
        }
        if (choice?.finish_reason === 'stop') finished = true
      }
      if (!finished || !items.complete) throw unusable('cut off')
    } catch (error) {
      tokens ??= tokensOf(error)
      throw explain(error)
    } finally {
      if (tokens !== null) call.charge(tokens)
    }
  }

  async close (): Promise<void> {}

  async #ask<T> (question: Question<T>, text: string, call: ModelCall): Promise<T> {
    let tokens: number | null = null
    try {
      const { choices, usage } = await this.#client.chat.completions.create(this.#request(question, text), { signal: call.signal })
      tokens = usedTokens(usage)
      const choice = Array.isArray(choices) ? choices[0] : undefined
      if (choice?.finish_reason !== 'stop') throw unusable('cut off')
      const answer: unknown = JSON.parse(choice.message?.content ?? '')
      if (!question.fits(answer)) throw unusable('another shape')
      return answer
    } catch (error) {
      tokens ??= tokensOf(error)
      throw explain(error)
    } finally {
      if (tokens !== null) call.charge(tokens)
    }
  }

  #request ({ name, instruction, schema }: Question<unknown>, text: string) {
    return {
      model: this.#name,
      messages: [{ role: 'system' as const, content: instruction }, { role: 'user' as const, content: text }],
      response_format: { type: 'json_schema' as const, json_schema: { name, strict: true, schema: { ...schema } } }
    }
  }
}

// A server that answers with an error has used no tokens. After any other error, they are unknown.
function tokensOf (error: unknown): number | null {
  return error instanceof APIError && typeof error.status === 'number' ? 0 : null
}

// The server's error message can contain the text or the key, so only its status is kept.
function explain (error: unknown): ServiceError {
  if (error instanceof ServiceError) return error
  if (error instanceof APIError && typeof error.status === 'number') {
    const { status } = error
    const cause = Object.assign(new Error('the model\'s server answered with an error'), { code: `HTTP_${status}` })
    if (status === 429) return new ServiceError(503, 'MODEL_BUSY', 'The model is busy. Please try again.', { retryAfter: waitOf(error), cause })
    if (status >= 500) return new ServiceError(503, 'MODEL_FAILED', 'The model failed. Please try again.', { retryAfter: waitOf(error), cause })
    return new ServiceError(502, 'MODEL_REFUSED', 'The model does not accept the request. The service logs the status.', { cause })
  }
  if (error instanceof SyntaxError) return unusable('no JSON')
  return new ServiceError(503, 'MODEL_UNREACHABLE', 'The model did not answer. Please try again.', { retryAfter: usualWait, cause: error })
}

function unusable (how: string): ServiceError {
  return new ServiceError(502, 'MODEL_ANSWER_UNUSABLE', `The model's answer cannot be used: ${how}. Please try again.`)
}

// Returns seconds. The header can contain seconds or a date.
function waitOf ({ headers }: APIError): number {
  const header = headers?.get('retry-after') ?? ''
  const seconds = /^\d+(\.\d+)?$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000
  return Number.isNaN(seconds) ? usualWait : Math.min(longestWait, Math.max(shortestWait, Math.ceil(seconds)))
}

async function fetchBounded (input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const response = await fetch(input, init)
  if (response.body === null) return response
  let length = 0
  const bounded = response.body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({
    transform (chunk, controller) {
      length += chunk.byteLength
      if (length > longestAnswer) controller.error(unusable('too long'))
      else controller.enqueue(chunk)
    }
  }))
  return new Response(bounded, response)
}
