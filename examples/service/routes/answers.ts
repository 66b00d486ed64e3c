import { quotaResponses } from 'fastify-llm-quota'

const entities = { type: 'array', items: { type: 'object', properties: { text: { type: 'string' }, type: { type: 'string' } } } }
const sentence = { type: 'object', properties: { text: { type: 'string' }, sentiment: { type: 'number' }, entities } }

const badRequest = {
  description: 'A field is missing or invalid. The message contains its name.',
  type: 'object',
  additionalProperties: true,
  properties: { error: { type: 'string' }, message: { type: 'string' } }
}

const unusable = {
  description: 'The model does not accept the request, or its answer is invalid.',
  type: 'object',
  properties: { error: { type: 'string' }, status: { type: 'integer', enum: [502] } }
}

// The quota counts the request before the model is called.
const unavailable = {
  ...quotaResponses[503],
  description: 'The quota store failed, or the model is busy, failed, or took too long. Try again after the time in Retry-After.'
}

/** Returns the response schemas of an operation: its result, invalid input, the refusals of the quota, and errors of the model. */
function answers (description: string, properties: Record<string, object>): object {
  return { 200: { description, type: 'object', properties }, 400: badRequest, ...quotaResponses, 502: unusable, 503: unavailable }
}

export const analysisAnswers = answers('The analysis of the text.', {
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
  score: { type: 'number', description: 'From 0, nothing in common, to 1, a perfect match.' },
  explanation: { type: 'string' },
  evidence: { type: 'array', items: { type: 'object', properties: { sentence: { type: 'string' }, shared: { type: 'array', items: { type: 'string' } } } } }
})

export const scoreAnswers = answers('The children of the node, best first.', {
  parent: { type: 'string' },
  children: { type: 'array', items: { type: 'object', properties: { code: { type: 'string' }, name: { type: 'string' }, score: { type: 'number' } } } }
})

export const streamAnswers = {
  200: { description: 'Server-sent events: an event `sentence` for each sentence, then `end`, or `error` if the model fails in between.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
  400: badRequest,
  ...quotaResponses,
  502: unusable,
  503: unavailable
}
