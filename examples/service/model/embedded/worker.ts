// The functions of a worker thread. The thread loads the model when it starts.
import type { MessagePort } from 'node:worker_threads'
import type { Justification, NodeScore, Reading } from '../model.js'
import { findNode } from '../taxonomy.js'
import { justify as justifyLeaf, scoreChildren } from './classification.js'
import { read, readSentences, tokensIn } from './reading.js'

/** What an operation has found, and the number of tokens in the text that it has read. */
interface Counted<T> {
  readonly found: T
  readonly tokens: number
}

export function analyze ({ text }: { text: string }): Counted<Reading> {
  return { found: read(text), tokens: tokensIn(text) }
}

export function justify ({ text, leaf }: { text: string, leaf: string }): Counted<Justification> {
  return { found: justifyLeaf(text, leaf), tokens: tokensIn(text) }
}

export function score ({ text, parent }: { text: string, parent: string }): Counted<NodeScore[]> {
  const node = findNode(parent)
  return { found: node === undefined ? [] : scoreChildren(text, node), tokens: tokensIn(text) }
}

/** Sends each sentence as soon as it is read, and then null. */
export function stream ({ text, port }: { text: string, port: MessagePort }): Counted<null> {
  for (const sentence of readSentences(text)) port.postMessage(sentence)
  port.postMessage(null)
  return { found: null, tokens: tokensIn(text) }
}

export interface Operations {
  analyze: typeof analyze
  justify: typeof justify
  score: typeof score
  stream: typeof stream
}
