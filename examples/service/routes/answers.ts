import { quotaResponses } from 'fastify-llm-quota'

const entities = { type: 'array', items: { type: 'object', properties: { text: { type: 'string' }, type: { type: 'string' } } } }
const sentence = { type: 'object', properties: { text: { type: 'string' }, sentiment: { type: 'number' }, entities } }

const badRequest = {
  description: 'A field is missing or cannot be used; the message names it.',
  type: 'object',
  additionalProperties: true,
  properties: { error: { type: 'string' }, message: { type: 'string' } }
}

/** What an operation answers, for its schema: what it found, or a refusal of bad input or of the quota. */
function answers (description: string, properties: Record<string, object>): object {
  return { 200: { description, type: 'object', properties }, 400: badRequest, ...quotaResponses }
}

export const analysisAnswers = answers('What the model read in the text.', {
  sentences: { type: 'array', items: sentence },
  entities,
  sentiment: { type: 'number', description: 'From -1, negative, to 1, positive.' },
  readability: {
    type: 'object',
    properties: { fleschReadingEase: { type: 'number' }, words: { type: 'integer' }, complexWords: { type: 'integer' }, readingSeconds: { type: 'number' } }
  }
})

export const justificationAnswers = answers('Whether the term applies, and why.', {
  leaf: { type: 'string' },
  applies: { type: 'boolean' },
  score: { type: 'number', description: 'From 0, nothing in common, to 1.' },
  explanation: { type: 'string' },
  evidence: { type: 'array', items: { type: 'object', properties: { sentence: { type: 'string' }, shared: { type: 'array', items: { type: 'string' } } } } }
})

export const scoreAnswers = answers('The children of the node, best first.', {
  parent: { type: 'string' },
  children: { type: 'array', items: { type: 'object', properties: { code: { type: 'string' }, name: { type: 'string' }, score: { type: 'number' } } } }
})

export const streamAnswers = {
  200: { description: 'Server-sent events: a `sentence` each, then `end`.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
  400: badRequest,
  ...quotaResponses
}
