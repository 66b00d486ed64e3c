// The functions of a worker thread, which loads the model when it starts.
import winkModel from 'wink-eng-lite-web-model'
import winkNLP, { type Detail, type Document, type ItemSentence, type ItemToken } from 'wink-nlp'
import type { Answer, Questions, Sentence } from './model.js'

/** An answer, and the number of tokens in the text. */
export interface Counted<Answer> {
  readonly answer: Answer
  readonly tokens: number
}

const nlp = winkNLP(winkModel)
const { its } = nlp
// The time of the tokenizer is quadratic in the length of a run without white space.
const longRuns = /\S{100}/gu

export function analysis ({ text }: Questions['analysis']): Counted<Answer<'analysis'>> {
  const document = read(text)
  const sentences: Sentence[] = []
  document.sentences().each((sentence: ItemSentence) => {
    const details: readonly (Detail | string)[] = sentence.entities().out(its.detail)
    const entities = details.flatMap((detail) =>
      typeof detail === 'string' ? [] : [{ text: detail.value, type: detail.type }]
    )
    sentences.push({
      text: sentence.out(),
      sentiment: Number(sentence.out(its.sentiment)),
      entities
    })
  })
  return counted(document, { sentences, sentiment: Number(document.out(its.sentiment)) })
}

export function justification ({
  text,
  term
}: Questions['justification']): Counted<Answer<'justification'>> {
  const document = read(text)
  const wanted = wordsOf(read(`${term.name}: ${term.about}`))
  const evidence = document
    .sentences()
    .out()
    .map((sentence) => ({
      sentence,
      shared: [...wordsOf(read(sentence))].flatMap(([stem, word]) =>
        wanted.has(stem) ? [word] : []
      )
    }))
    .filter(({ shared }) => shared.length > 0)
  const applies = evidence.length > 0
  const mentioned = [...new Set(evidence.flatMap(({ shared }) => shared))].join(', ')
  const explanation = applies
    ? `The text mentions ${mentioned}, which belongs to "${term.name}".`
    : `No sentence of the text has a word in common with "${term.name}".`
  return counted(document, {
    applies,
    score: resemblance(wordsOf(document), wanted),
    explanation,
    evidence
  })
}

export function scores ({ text, terms }: Questions['scores']): Counted<Answer<'scores'>> {
  const document = read(text)
  const words = wordsOf(document)
  const scores = terms.map(({ code, name, about }) => ({
    code,
    score: resemblance(words, wordsOf(read(`${name}: ${about}`)))
  }))
  return counted(document, { scores })
}

function read (text: string): Document {
  return nlp.readDoc(text.replace(longRuns, '$& '))
}

function counted<Answer> (document: Document, answer: Answer): Counted<Answer> {
  return { answer, tokens: document.tokens().length() }
}

/** Returns the words that carry meaning, by their stems. */
function wordsOf (document: Document): Map<string, string> {
  const words = new Map<string, string>()
  document.tokens().each((token: ItemToken) => {
    if (token.out(its.type) !== 'word' || token.out(its.stopWordFlag)) return
    // The package declares this helper only for collections.
    words.set(String(Reflect.apply(token.out, token, [its.stem])), token.out().toLowerCase())
  })
  return words
}

/** The words of a text by their stem. */
type Words = ReadonlyMap<string, string>

// From 0 to 1: the words in common, in relation to the number of words (cosine similarity).
function resemblance (one: Words, other: Words): number {
  const shared = [...one.keys()].filter((stem) => other.has(stem)).length
  return shared === 0 ? 0 : Math.round((shared / Math.sqrt(one.size * other.size)) * 1000) / 1000
}
