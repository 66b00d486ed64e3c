import { isObject } from '../option-checks.js'
import { ignoreRejection, isPromise } from '../promises.js'
import { propertyOf } from './counts.js'

/** How deep objects that hold a usage can be nested. Bounded, as an object can contain itself. */
export const deepestHolder = 3

/** Returns the objects of a value in which an API states a usage. A model writes none of them. */
export function holdersIn (value: object): object[] {
  const type = readIn(value, 'type') ?? readIn(value, 'event_type')
  const isLineOfBatch = readIn(value, 'custom_id') != null
  const holders = [
    readIn(value, 'message'), // Anthropic's message_start
    readIn(value, 'delta'), // Cohere's message-end
    readIn(value, 'interaction'), // Gemini's interactions
    readIn(value, 'x_groq')
  ]
  // Events of OpenAI's and Cohere's, and a line of OpenAI's batches. Elsewhere, such as in
  // Cloudflare's JSON mode, it is what a model wrote.
  if (typeof type === 'string' || isLineOfBatch) holders.push(readIn(value, 'response'))
  // A response in a line of OpenAI's batches.
  if (readIn(value, 'status_code') != null) holders.push(readIn(value, 'body'))
  // A line of Anthropic's batches, LM Studio's last event, and Cloudflare. Elsewhere, it is the
  // result of a tool.
  if (isLineOfBatch || type === 'chat.end' || typeof readIn(value, 'success') === 'boolean') {
    holders.push(readIn(value, 'result'))
  }
  // Converse streams an object with nothing else. Other bodies hold what a client sent there.
  if (Object.keys(value).length === 1) holders.push(readIn(value, 'metadata'))
  return holders.filter(isObject)
}

/**
 * Returns a property of a value; undefined if it is a promise, as the results of streams of the AI
 * SDK have, which would end the process if it were rejected.
 */
export function readIn (value: object, name: string): unknown {
  const property = propertyOf(value, name)
  if (!isPromise(property)) return property
  ignoreRejection(property)
  return undefined
}
