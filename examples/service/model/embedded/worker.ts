// The functions of a worker thread. The thread loads the model when it starts.
import type { MessagePort } from 'node:worker_threads'
import type { Justification, NodeScore, Reading } from '../model.js'
import { findNode } from '../taxonomy.js'
import { justify as justifyLeaf, scoreChildren } from './classification.js'
import { read, readSentences, tokenized, tokensIn } from './reading.js'

/** What an operation has found, and the number of tokens in the text that it has read. */
interface Counted<T> {
  readonly found: T
  readonly tokens: number
}

export function analyze ({ text }: { text: string }): Counted<Reading> {
  const document = tokenized(text)
  return { found: read(document), tokens: tokensIn(document) }
}

export function justify ({ text, leaf }: { text: string, leaf: string }): Counted<Justification> {
  const document = tokenized(text)
  return { found: justifyLeaf(document, leaf), tokens: tokensIn(document) }
}

export function score ({ text, parent }: { text: string, parent: string }): Counted<NodeScore[]> {
  const document = tokenized(text)
  const node = findNode(parent)
  return { found: node === undefined ? [] : scoreChildren(document, node), tokens: tokensIn(document) }
}

/** Sends each sentence as soon as it is read, and then null. */
export function stream ({ text, port }: { text: string, port: MessagePort }): Counted<null> {
  const document = tokenized(text)
  for (const sentence of readSentences(document)) port.postMessage(sentence)
  port.postMessage(null)
  return { found: null, tokens: tokensIn(document) }
}

export interface Operations {
  analyze: typeof analyze
  justify: typeof justify
  score: typeof score
  stream: typeof stream
}
