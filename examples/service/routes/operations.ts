import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox'
import { quotaResponses } from 'fastify-llm-quota'
import { answers, type Sentence } from '../model/model.js'
import { taxonomy, termOf } from '../model/taxonomy.js'
import { forClient } from '../plugins/errors.js'
import { callOf } from '../plugins/model.js'

// Invalid input is answered with 400 before the quota counts the request.
const text = (maxLength: number, description: string) =>
  Type.String({ minLength: 1, maxLength, pattern: '\\S', description })
const businessText = text(5000, 'The text to read. It must not be blank.')
const textOnly = Type.Object({ businessText })
const textAndLeaf = Type.Object({
  businessText,
  leaf: text(200, 'A term, or a code from the taxonomy.')
})
const textAndNode = Type.Object({ businessText, parentCode: Type.Enum(Object.keys(taxonomy)) })
const score = Type.Object({ code: Type.String(), name: Type.String(), score: Type.Number() })
const error = Type.Object({ error: Type.String(), status: Type.Integer() })
const content = { 'text/event-stream': { schema: Type.String() } }
const events = {
  description: 'An event `sentence` for each sentence, then `end` or `error`.',
  content
}
const described = <Result>(summary: string, result: Result) => ({
  summary,
  tags: ['Operations'],
  security: [{ token: [] }],
  response: { 200: result, 400: error, ...quotaResponses, 502: error }
})

/** The four operations, which call the model and are protected by the quota. */
const operations: FastifyPluginAsyncTypebox = async function operations (app) {
  app.post(
    '/api/analyze',
    { schema: { ...described('Analyze a text', answers.analysis), body: textOnly } },
    async (request, reply) =>
      await app.model.ask('analysis', { text: request.body.businessText }, callOf(request, reply))
  )

  const justification = Type.Interface([answers.justification], { leaf: Type.String() })
  app.post(
    '/api/justify-leaf',
    {
      schema: {
        ...described('Explain why a term applies or not', justification),
        body: textAndLeaf
      }
    },
    async (request, reply) => {
      const term = termOf(request.body.leaf)
      return {
        leaf: term.name,
        ...(await app.model.ask(
          'justification',
          { text: request.body.businessText, term },
          callOf(request, reply)
        ))
      }
    }
  )

  const scores = Type.Object({ parent: Type.String(), children: Type.Array(score) })
  app.get(
    '/api/analyze-node',
    { schema: { ...described('Score the terms of a group', scores), querystring: textAndNode } },
    async (request, reply) => {
      const { businessText: text, parentCode: parent } = request.query
      const terms = taxonomy[parent] ?? []
      const { scores } = await app.model.ask('scores', { text, terms }, callOf(request, reply))
      const scoreOf = new Map(scores.map(({ code, score }) => [code, score]))
      const children = terms.map(({ code, name }) => ({
        code,
        name,
        score: scoreOf.get(code) ?? 0
      }))
      return { parent, children: children.sort((one, other) => other.score - one.score) }
    }
  )

  app.get(
    '/api/analyze-stream',
    {
      sse: 'only',
      schema: { ...described('Analyze a text by sentence', events), querystring: textOnly }
    },
    async (request, reply) => {
      const events = eventsOf(app.model.stream(request.query.businessText, callOf(request, reply)))
      // An error before the first sentence is still answered with its own status.
      const first = await events.next()
      if (first.done !== true) await reply.sse.send(first.value)
      await reply.sse.send(events)
    }
  )
}

async function * eventsOf (sentences: AsyncIterable<Sentence>) {
  let count = 0
  try {
    for await (const sentence of sentences) {
      yield { id: String(++count), event: 'sentence', data: sentence }
    }
    yield { event: 'end', data: { sentences: count } }
  } catch (error) {
    if (count === 0) throw error
    const { statusCode, message } = forClient(error)
    yield {
      event: 'error',
      data: { error: statusCode === undefined ? 'The model failed.' : message }
    }
  }
}

export default operations
