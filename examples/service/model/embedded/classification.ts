import type { Document } from 'wink-nlp'
import similarity from 'wink-nlp/utilities/similarity.js'
import type { Justification, NodeScore } from '../model.js'
import { describeNode, findNode, type TaxonomyNode } from '../taxonomy.js'
import { readSentences, stemsOf, tokenized, type Word, wordsOf } from './reading.js'

/** Explains why a term applies to a text or not. For a node of the taxonomy, its description is used as well. */
export function justify (text: Document, leaf: string): Justification {
  const node = findNode(leaf)
  const name = node?.name ?? leaf
  const term = wordsOf(tokenized(node === undefined ? leaf : describeNode(node)))
  const stems = new Set(term.map(({ stem }) => stem))
  const evidence = [...readSentences(text)]
    .map(({ text: sentence }) => ({ sentence, shared: unique(wordsOf(tokenized(sentence)).filter(({ stem }) => stems.has(stem)).map((word) => word.text.toLowerCase())) }))
    .filter(({ shared }) => shared.length > 0)
  const applies = evidence.length > 0
  return {
    leaf: name,
    applies,
    score: resemblance(wordsOf(text), term),
    explanation: applies
      ? `The text speaks of ${unique(evidence.flatMap(({ shared }) => shared)).join(', ')}, which belongs to "${name}".`
      : `No sentence of the text shares a word that carries meaning with "${name}".`,
    evidence
  }
}

/** Scores the children of a node by the words that they have in common with a text, best first. */
export function scoreChildren (text: Document, parent: TaxonomyNode): NodeScore[] {
  const words = wordsOf(text)
  return parent.children
    .map((child) => ({ code: child.code, name: child.name, score: resemblance(words, wordsOf(tokenized(describeNode(child)))) }))
    .sort((one, other) => other.score - one.score)
}

// Without words, there is nothing to compare.
function resemblance (one: readonly Word[], other: readonly Word[]): number {
  if (one.length === 0 || other.length === 0) return 0
  return Math.round(similarity.bow.cosine(stemsOf(one), stemsOf(other)) * 1000) / 1000
}

function unique (words: readonly string[]): string[] {
  return [...new Set(words)]
}
