import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Sentence } from '../model/model.js'
import { findNode } from '../model/taxonomy.js'
import { callOf } from '../plugins/model.js'
import { ServiceError } from '../service-error.js'
import { analysisAnswers, justificationAnswers, scoreAnswers, streamAnswers } from './answers.js'

// Invalid input is answered with 400 before the quota counts the request.
const notBlank = { type: 'string', minLength: 1, pattern: '\\S' }
const businessText = { ...notBlank, maxLength: 20_000, description: 'The text to read. It must not be blank.' }
const leaf = { ...notBlank, maxLength: 200, description: 'A term, or a code from the taxonomy.' }
const parentCode = { ...notBlank, maxLength: 50, description: 'A code from the taxonomy, such as FIN.' }

function exactly (properties: Record<string, object>): object {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false }
}

function described (summary: string): object {
  return { summary, tags: ['Model-backed operations'], security: [{ token: [] }] }
}

interface Text { businessText: string }
interface NodeQuery extends Text { parentCode: string }

/** The four operations, which call the model and are protected by the quota. */
export async function operations (app: FastifyInstance): Promise<void> {
  app.post<{ Body: Text }>('/api/analyze', { schema: { ...described('Analyze a text'), body: exactly({ businessText }), response: analysisAnswers } },
    async (request, reply) => await app.model.answer(callOf(request, reply), (model, call) => model.analyze(request.body.businessText, call)))

  app.post<{ Body: Text & { leaf: string } }>('/api/justify-leaf',
    { schema: { ...described('Explain why a term applies to a text or not'), body: exactly({ businessText, leaf }), response: justificationAnswers } },
    async (request, reply) => await app.model.answer(callOf(request, reply), (model, call) => model.justify(request.body.businessText, request.body.leaf, call)))

  // Without exposeHeadRoute: false, a HEAD route would run the same handler without being subject to the quota.
  app.get<{ Querystring: NodeQuery }>('/api/analyze-node',
    { exposeHeadRoute: false, preValidation: knowsNode, schema: { ...described('Score the children of a taxonomy node'), querystring: exactly({ parentCode, businessText }), response: scoreAnswers } },
    async (request, reply) => {
      const parent = nodeOf(request.query.parentCode)
      const children = await app.model.answer(callOf(request, reply), (model, call) => model.score(request.query.businessText, parent, call))
      return { parent: parent.code, children }
    })

  app.get<{ Querystring: Text }>('/api/analyze-stream',
    { exposeHeadRoute: false, sse: 'only', preValidation: acceptsEvents, schema: { ...described('Analyze a text, sentence by sentence'), querystring: exactly({ businessText }), response: streamAnswers } },
    async (request, reply) => {
      const events = eventsOf(app.model.stream(callOf(request, reply), request.query.businessText))
      // An error before the first sentence can still be answered with its own status.
      const first = await events.next()
      if (first.done !== true) await reply.sse.send(first.value)
      await reply.sse.send(events)
    })
}

async function * eventsOf (sentences: AsyncIterable<Sentence>) {
  let id = 0
  try {
    for await (const sentence of sentences) yield { id: String(++id), event: 'sentence', data: sentence }
    yield { event: 'end', data: { sentences: id } }
  } catch (error) {
    if (id === 0 || !(error instanceof ServiceError)) throw error
    yield { event: 'error', data: { error: error.message, status: error.statusCode } }
  }
}

async function knowsNode ({ query }: FastifyRequest<{ Querystring: NodeQuery }>): Promise<void> {
  // If the value is not a string, schema validation has the better error message.
  if (typeof query.parentCode === 'string' && query.parentCode.trim() !== '') nodeOf(query.parentCode)
}

function nodeOf (code: string) {
  const node = findNode(code)
  if (node === undefined) throw new ServiceError(400, 'UNKNOWN_NODE', 'querystring/parentCode must be a code of the taxonomy')
  return node
}

// The plugin for server-sent events checks this too, but only after the quota has counted the request.
async function acceptsEvents ({ headers: { accept = '' } }: FastifyRequest): Promise<void> {
  if (accept !== '' && !/text\/event-stream|(text|\*)\/\*/i.test(accept)) throw new ServiceError(406, 'NOT_ACCEPTABLE', 'This operation answers only with text/event-stream.')
}
