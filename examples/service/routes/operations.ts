import type { FastifyInstance } from 'fastify'
import { justify, scoreChildren } from '../model/classification.js'
import { read, readSentences } from '../model/language-model.js'
import { findNode } from '../model/taxonomy.js'
import { analysisAnswers, justificationAnswers, scoreAnswers, streamAnswers } from './answers.js'

const businessText = { type: 'string', minLength: 1, maxLength: 20_000 }

function exactly (properties: Record<string, object>): object {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false }
}

function described (summary: string): object {
  return { summary, tags: ['Model-backed operations'], security: [{ token: [] }] }
}

interface Text { businessText: string }

/** The four operations that the model answers, and that the quota protects. */
export async function operations (app: FastifyInstance): Promise<void> {
  app.post<{ Body: Text }>('/api/analyze', { schema: { ...described('Analyze a text'), body: exactly({ businessText }), response: analysisAnswers } },
    async ({ body }) => read(body.businessText))

  app.post<{ Body: Text & { leaf: string } }>('/api/justify-leaf',
    { schema: { ...described('Say why a term applies to a text, or not'), body: exactly({ businessText, leaf: { type: 'string', minLength: 1, maxLength: 200 } }), response: justificationAnswers } },
    async ({ body }) => justify(body.businessText, body.leaf))

  // A GET route would get a HEAD twin, which runs the same handler under a method that the quota does not know.
  app.get<{ Querystring: Text & { parentCode: string } }>('/api/analyze-node',
    { exposeHeadRoute: false, schema: { ...described('Score the children of a taxonomy node'), querystring: exactly({ parentCode: { type: 'string', minLength: 1, maxLength: 20 }, businessText }), response: scoreAnswers } },
    async ({ query }, reply) => {
      const parent = findNode(query.parentCode)
      if (parent === undefined) return reply.code(400).send({ error: 'Bad Request', message: 'querystring/parentCode must be a code of the taxonomy', statusCode: 400 })
      return { parent: parent.code, children: scoreChildren(query.businessText, parent) }
    })

  app.get<{ Querystring: Text }>('/api/analyze-stream',
    { exposeHeadRoute: false, sse: 'only', schema: { ...described('Analyze a text, sentence by sentence'), querystring: exactly({ businessText }), response: streamAnswers } },
    async ({ query }, reply) => { await reply.sse.send(events(query.businessText)) })
}

async function * events (text: string) {
  let id = 0
  for (const sentence of readSentences(text)) {
    yield { id: String(++id), event: 'sentence', data: sentence }
    // Other requests get their turn between two sentences.
    await new Promise(setImmediate)
  }
  yield { event: 'end', data: { sentences: id } }
}
