// The functions of a worker thread. The thread loads the model when it starts.
import type { MessagePort } from 'node:worker_threads'
import type { Justification, NodeScore, Reading } from '../model.js'
import { findNode } from '../taxonomy.js'
import { justify as justifyLeaf, scoreChildren } from './classification.js'
import { read, readSentences } from './reading.js'

export function analyze ({ text }: { text: string }): Reading {
  return read(text)
}

export function justify ({ text, leaf }: { text: string, leaf: string }): Justification {
  return justifyLeaf(text, leaf)
}

export function score ({ text, parent }: { text: string, parent: string }): NodeScore[] {
  const node = findNode(parent)
  return node === undefined ? [] : scoreChildren(text, node)
}

/** Sends each sentence as soon as it is read, and then null. */
export function stream ({ text, port }: { text: string, port: MessagePort }): void {
  for (const sentence of readSentences(text)) port.postMessage(sentence)
  port.postMessage(null)
}

export interface Operations {
  analyze: typeof analyze
  justify: typeof justify
  score: typeof score
  stream: typeof stream
}
