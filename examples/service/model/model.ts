import { type Static, type TProperties, Type } from '@fastify/type-provider-typebox'
import type { Term } from './taxonomy.js'

// An OpenAI-compatible server requires schemas that name each property.
const exactly = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false })

const sentiment = Type.Number({
  minimum: -1,
  maximum: 1,
  description: 'From -1, negative, to 1, positive.'
})
const score = Type.Number({
  minimum: 0,
  maximum: 1,
  description: 'From 0, nothing in common, to 1, a perfect match.'
})
const entity = exactly({
  text: Type.String(),
  type: Type.String({ description: 'PERSON, PLACE, DATE, MONEY or similar.' })
})

export const sentenceSchema = exactly({
  text: Type.String(),
  sentiment,
  entities: Type.Array(entity)
})

/** The schemas of the model's answers. */
export const answers = {
  analysis: exactly({ sentences: Type.Array(sentenceSchema), sentiment }),
  justification: exactly({
    applies: Type.Boolean(),
    score,
    explanation: Type.String(),
    evidence: Type.Array(exactly({ sentence: Type.String(), shared: Type.Array(Type.String()) }))
  }),
  scores: exactly({ scores: Type.Array(exactly({ code: Type.String(), score })) })
}

export type Sentence = Static<typeof sentenceSchema>
export type Answer<Name extends keyof Questions> = Static<(typeof answers)[Name]>

/**
 * What can be asked about a text: how it reads, whether a term applies to it and why, and how well
 * each of several terms does.
 */
export interface Questions {
  readonly analysis: { readonly text: string }
  readonly justification: { readonly text: string; readonly term: Term }
  readonly scores: { readonly text: string; readonly terms: readonly Term[] }
}

/** The most tokens of the instructions and the schema that an operation sends beside the text. */
export const mostInstructed = 300

/** Returns about how many tokens an English text has: one for every four characters. */
export function tokensOf (text: string): number {
  return Math.ceil(text.length / 4)
}

/** Returns how many tokens an answer may have. It repeats the text, with what is found in it. */
export function mostAnswered (text: string): number {
  return 500 + 4 * tokensOf(text)
}

/** A call of the model for a request. */
export interface Call {
  /** Ends the call: its time is over, or its client has disconnected. */
  readonly signal: AbortSignal
  /** Reports what the call has used, as the model's server states it; null if it does not. */
  chargeUsage(usage: unknown): void
}

/** The model behind the four operations. */
export interface Model {
  ask<Name extends keyof Questions>(
    name: Name,
    question: Questions[Name],
    call: Call
  ): Promise<Answer<Name>>
  /** Reads a text sentence by sentence. */
  stream(text: string, call: Call): AsyncIterable<Sentence>
  close(): Promise<void>
}
