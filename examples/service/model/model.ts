import type { TaxonomyNode } from './taxonomy.js'

/** A named entity, such as a name, a number or a date. */
export interface Entity {
  readonly text: string
  readonly type: string
}

/** A sentence with its sentiment and entities. */
export interface Sentence {
  readonly text: string
  /** From -1, negative, to 1, positive. */
  readonly sentiment: number
  readonly entities: readonly Entity[]
}

/** The analysis of a text. */
export interface Reading {
  readonly sentences: readonly Sentence[]
  readonly entities: readonly Entity[]
  readonly sentiment: number
  readonly readability: Readability
}

export interface Readability {
  /** From 0, very hard to read, to 100, very easy (Flesch). */
  readonly fleschReadingEase: number
  readonly words: number
  /** The number of words with three or more syllables. */
  readonly complexWords: number
  readonly readingSeconds: number
}

/** Whether a term applies to a text, and why. */
export interface Justification {
  readonly leaf: string
  readonly applies: boolean
  /** From 0, nothing in common, to 1, a perfect match. */
  readonly score: number
  readonly explanation: string
  /** The sentences that support the term, each with the words in common. */
  readonly evidence: readonly { readonly sentence: string, readonly shared: readonly string[] }[]
}

/** The score of a child of a taxonomy node for a text. */
export interface NodeScore {
  readonly code: string
  readonly name: string
  readonly score: number
}

/** A call of the model. */
export interface ModelCall {
  /** Aborts the call. */
  readonly signal: AbortSignal
  /** Reports the number of tokens that the call has used. */
  charge (tokens: number): void
}

/** The model behind the four operations. A call rejects as soon as its signal is aborted. */
export interface Model {
  /** A human-readable description. */
  readonly description: string
  analyze (text: string, call: ModelCall): Promise<Reading>
  /** Explains why a term, or a node of the taxonomy (by code or name), applies to a text or not. */
  justify (text: string, leaf: string, call: ModelCall): Promise<Justification>
  /** Scores the children of a node, best first. */
  score (text: string, parent: TaxonomyNode, call: ModelCall): Promise<readonly NodeScore[]>
  /** Reads a text sentence by sentence. Resolves after the last sentence. */
  stream (text: string, found: (sentence: Sentence) => void, call: ModelCall): Promise<void>
  close (): Promise<void>
}
