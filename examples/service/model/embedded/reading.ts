import model from 'wink-eng-lite-web-model'
import winkNLP, { type Bow, type Detail, type Document, type ItemSentence, type ItemToken } from 'wink-nlp'
import type { Entity, Reading, Sentence } from '../model.js'

const nlp = winkNLP(model)
const { its } = nlp

// Limits the length of words, because the stemmer's time is quadratic in it. Real words are shorter.
const longestWord = 64

// Limits the length of a run without white space, because the tokenizer's time is quadratic in it, or worse. Longer runs are split.
const longRuns = /\S{200}/gu

/** A content word: one that carries meaning. */
export interface Word {
  readonly text: string
  readonly stem: string
}

/** Splits a text into sentences and tokens. */
export function tokenized (text: string): Document {
  return nlp.readDoc(text.replace(longRuns, '$& '))
}

export function read (document: Document): Reading {
  const statistics = Object(document.out(its.readabilityStats))
  return {
    sentences: [...readSentences(document)],
    entities: entitiesOf(document.entities().out(its.detail)),
    sentiment: Number(document.out(its.sentiment)),
    readability: {
      // These values are undefined for a text without words.
      fleschReadingEase: finite(statistics.fres),
      words: finite(statistics.numOfWords),
      complexWords: finite(statistics.numOfComplexWords),
      readingSeconds: finite(statistics.readingTimeMins) * 60 + finite(statistics.readingTimeSecs)
    }
  }
}

/** Reads a text lazily, sentence by sentence. */
export function * readSentences (document: Document): Generator<Sentence> {
  const sentences = document.sentences()
  for (let index = 0; index < sentences.length(); index++) yield describe(sentences.itemAt(index))
}

/** Returns the content words. */
export function wordsOf (document: Document): Word[] {
  const words: Word[] = []
  document.tokens().each((token: ItemToken) => {
    if (token.out(its.type) !== 'word' || token.out(its.stopWordFlag)) return
    const word = token.out()
    // The package declares this helper only for collections.
    words.push({ text: word, stem: word.length > longestWord ? word : String(Reflect.apply(token.out, token, [its.stem])) })
  })
  return words
}

/** Counts the tokens: words, numbers, punctuation marks and the like. */
export function tokensIn (document: Document): number {
  return document.tokens().length()
}

/** Counts the words by stem. */
export function stemsOf (words: readonly Word[]): Bow {
  const stems: Bow = Object.create(null)
  for (const { stem } of words) stems[stem] = (stems[stem] ?? 0) + 1
  return stems
}

function describe (sentence: ItemSentence): Sentence {
  return {
    text: sentence.out(),
    sentiment: Number(sentence.out(its.sentiment)),
    entities: entitiesOf(sentence.entities().out(its.detail))
  }
}

function entitiesOf (details: readonly (Detail | string)[]): Entity[] {
  return details.flatMap((detail) => typeof detail === 'string' ? [] : [{ text: detail.value, type: detail.type }])
}

function finite (value: unknown): number {
  const number = Number(value)
  return Number.isFinite(number) ? number : 0
}
