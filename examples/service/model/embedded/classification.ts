import similarity from 'wink-nlp/utilities/similarity.js'
import { readSentences, stemsOf } from './language-model.js'
import { findNode, type TaxonomyNode } from './taxonomy.js'

/** How well a term fits a text, and why. */
export interface Justification {
  readonly leaf: string
  readonly applies: boolean
  /** From 0, nothing in common, to 1. */
  readonly score: number
  readonly explanation: string
  /** The sentences that speak for the term, each with the words (stems) that it shares with it. */
  readonly evidence: readonly { readonly sentence: string, readonly shared: readonly string[] }[]
}

/** How well a child of a taxonomy node fits a text. */
export interface NodeScore {
  readonly code: string
  readonly name: string
  readonly score: number
}

/** Explains from a text why a term applies to it or not. A term of the taxonomy is known by what it is about as well. */
export function justify (text: string, leaf: string): Justification {
  const node = findNode(leaf)
  const term = stemsOf(node === undefined ? leaf : describe(node))
  const evidence = [...readSentences(text)]
    .map(({ text: sentence }) => ({ sentence, shared: Object.keys(stemsOf(sentence)).filter((stem) => stem in term) }))
    .filter(({ shared }) => shared.length > 0)
  const applies = evidence.length > 0
  const shared = [...new Set(evidence.flatMap((sentence) => sentence.shared))]
  return {
    leaf: node?.name ?? leaf,
    applies,
    score: round(similarity.bow.cosine(stemsOf(text), term)),
    explanation: applies
      ? `The text speaks of ${shared.join(', ')}, which belongs to "${node?.name ?? leaf}".`
      : `No sentence of the text shares a word that carries meaning with "${node?.name ?? leaf}".`,
    evidence
  }
}

/** Scores the children of a node by what they have in common with a text, best first. */
export function scoreChildren (text: string, parent: TaxonomyNode): NodeScore[] {
  const stems = stemsOf(text)
  return parent.children
    .map((child) => ({ code: child.code, name: child.name, score: round(similarity.bow.cosine(stems, stemsOf(describe(child)))) }))
    .sort((one, other) => other.score - one.score)
}

function describe ({ name, about, children }: TaxonomyNode): string {
  return [`${name}: ${about}.`, ...children.map(describe)].join(' ')
}

function round (score: number): number {
  return Math.round(score * 1000) / 1000
}
