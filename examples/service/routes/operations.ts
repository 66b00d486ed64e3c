import type { FastifyInstance } from 'fastify'
import { justify, scoreChildren } from '../model/classification.js'
import { read, readSentences } from '../model/language-model.js'
import { findNode } from '../model/taxonomy.js'

const businessText = { type: 'string', minLength: 1, maxLength: 20_000 }

function exactly (properties: Record<string, object>): object {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false }
}

interface Text { businessText: string }

/** The four operations that the model answers, and that the quota protects. */
export async function operations (app: FastifyInstance): Promise<void> {
  app.post<{ Body: Text }>('/api/analyze', { schema: { body: exactly({ businessText }) } },
    async ({ body }) => read(body.businessText))

  app.post<{ Body: Text & { leaf: string } }>('/api/justify-leaf',
    { schema: { body: exactly({ businessText, leaf: { type: 'string', minLength: 1, maxLength: 200 } }) } },
    async ({ body }) => justify(body.businessText, body.leaf))

  // A GET route would get a HEAD twin, which runs the same handler under a method that the quota does not know.
  app.get<{ Querystring: Text & { parentCode: string } }>('/api/analyze-node',
    { exposeHeadRoute: false, schema: { querystring: exactly({ parentCode: { type: 'string', minLength: 1, maxLength: 20 }, businessText }) } },
    async ({ query }, reply) => {
      const parent = findNode(query.parentCode)
      if (parent === undefined) return reply.code(400).send({ error: 'querystring/parentCode must be a code of the taxonomy', status: 400 })
      return { parent: parent.code, children: scoreChildren(query.businessText, parent) }
    })

  app.get<{ Querystring: Text }>('/api/analyze-stream',
    { exposeHeadRoute: false, sse: 'only', schema: { querystring: exactly({ businessText }) } },
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
